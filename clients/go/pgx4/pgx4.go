// Package pgx4 connects pgqext with the driver pgx 4. Another version of pgx needs a package like this.
package pgx4

import (
	"context"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"

	"pgqext"
)

// A Querier is a *pgx.Conn, a pgx.Tx or a *pgxpool.Pool.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

type db struct{ Querier }

func (d db) Exec(ctx context.Context, sql string, args ...any) error {
	_, err := d.Querier.Exec(ctx, sql, args...)
	return err
}

func (d db) Query(ctx context.Context, sql string, args []any, scan func(pgqext.Row) error) error {
	rows, err := d.Querier.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Wrap returns what the functions of pgqext take, for producers.
func Wrap(q Querier) pgqext.DB { return db{q} }

type conn struct {
	db
	raw *pgx.Conn
}

func (c conn) IsClosed() bool                  { return c.raw.IsClosed() }
func (c conn) Close(ctx context.Context) error { return c.raw.Close(ctx) }
func (c conn) Raw() any                        { return c.raw }

// Connect connects to the primary among the hosts of the connection string, or of PGHOST. Behind a pooler in transaction
// mode, add statement_cache_mode=describe to the string.
func Connect(connString string) func(context.Context) (pgqext.Conn, error) {
	return func(ctx context.Context) (pgqext.Conn, error) {
		config, err := pgx.ParseConfig(connString)
		if err != nil {
			return nil, err
		}
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		raw, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		return conn{db{raw}, raw}, nil
	}
}
