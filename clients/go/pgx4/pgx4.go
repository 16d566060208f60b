// Package pgx4 connects pgqext with the driver pgx 4.
package pgx4

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"

	pgqext "pgq-ext.invalid/go"
)

// A Querier is a *pgx.Conn, a pgx.Tx or a *pgxpool.Pool.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

type db struct{ Querier }

func (d db) Query(ctx context.Context, sql string, args ...any) (found []string, err error) {
	rows, err := d.Querier.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		found = append(found, string(rows.RawValues()[0]))
	}
	return found, rows.Err()
}

// DB returns what the functions of pgqext take.
func DB(q Querier) pgqext.DB { return db{q} }

// Tx returns the transaction of a handler, for a worker with the option Tx. Its method Begin makes a savepoint.
func Tx(job *pgqext.Job) pgx.Tx { return job.DB.(db).Querier.(pgx.Tx) }

type conn struct{ *pgx.Conn }

func (c conn) Query(ctx context.Context, sql string, args ...any) ([]string, error) {
	return db{c.Conn}.Query(ctx, sql, args...)
}

func (c conn) InTx(ctx context.Context, body func(pgqext.DB) error) error {
	return c.BeginFunc(ctx, func(tx pgx.Tx) error { return body(db{tx}) })
}

// Connect connects to the primary among the hosts of the connection string, or of PGHOST. Behind a pooler in
// transaction mode, add statement_cache_mode=describe to the string.
func Connect(connString string) func(context.Context) (pgqext.Conn, error) {
	return func(ctx context.Context) (pgqext.Conn, error) {
		config, err := pgx.ParseConfig(connString)
		if err != nil {
			return nil, err
		}
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
		// A host that does not answer must leave time for the others.
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
			if err == nil {
				err = c.SetDeadline(time.Now().Add(5 * time.Second))
			}
			return c, err
		}
		config.AfterConnect = func(_ context.Context, c *pgconn.PgConn) error { return c.Conn().SetDeadline(time.Time{}) }
		c, err := pgx.ConnectConfig(ctx, config)
		return conn{c}, err
	}
}
