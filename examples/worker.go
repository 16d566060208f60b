// A worker for the queue "mail". DATABASE_URL names the database. With a standby, use
// postgres://one,two/...?target_session_attrs=read-write: then the worker goes on after a failover. On SIGTERM the worker
// finishes the job that it is working on. If it has lost a job (the job took too long, or was cancelled), its work is
// cancelled, or pgq_ack fails, which rolls the work back. Create the queue by SELECT pgq_create_queue('mail', lease_time => '1
// min', max_runtime => '10 min'). The heartbeat extends the lease until max_runtime is over; then a job that hangs goes to
// another worker.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

type job struct {
	id, lease int64
	payload   []byte
}

// The work, committed together with the ack.
func handle(ctx context.Context, tx pgx.Tx, j job) error {
	var mail struct{ To string }
	if err := json.Unmarshal(j.payload, &mail); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO sent (job_id, address) VALUES ($1, $2)", j.id, mail.To)
	return err
}

// PostgreSQL stores valid UTF-8 without NUL.
func storable(err error) string {
	return strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
}

// Extends the lease, often enough for the queue's lease_time.
func heartbeat(ctx context.Context, cancel func(), db *pgxpool.Pool, j job) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
			var until *time.Time
			if db.QueryRow(ctx, "SELECT pgq_extend($1, $2)", j.id, j.lease).Scan(&until) == nil && until == nil {
				cancel()
			}
		}
	}
}

func work(db *pgxpool.Pool, j job) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go heartbeat(ctx, cancel, db, j)
	err := db.BeginFunc(ctx, func(tx pgx.Tx) error {
		if err := handle(ctx, tx, j); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pgq_ack($1, $2)", j.id, j.lease)
		return err
	})
	if err != nil { // the job is tried again after the queue's backoff
		_, err = db.Exec(context.Background(), "SELECT pgq_fail($1, $2, error => $3)", j.id, j.lease, storable(err))
	}
	return err
}

func main() {
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ctx := context.Background() // do not use stop here: a claim that is cancelled may have been answered already
	db, err := pgxpool.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	for stop.Err() == nil {
		var j job
		err = db.QueryRow(ctx, "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')").Scan(&j.id, &j.lease, &j.payload)
		if err == pgx.ErrNoRows {
			err = nil
		} else if err == nil && stop.Err() != nil { // the job has not begun: give it back
			_, err = db.Exec(ctx, "SELECT pgq_release($1, $2)", j.id, j.lease)
		} else if err == nil {
			err = work(db, j)
		}
		if err != nil { // the pool reconnects to the primary; a claimed job is then claimed again
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}
