// Works off the queue "mail" of the database DATABASE_URL. SIGTERM: the job in hand is finished, what has not begun is given back.
// If a job is not ours any more (it took too long, or was cancelled) its work is cancelled, or pgq_ack fails, which undoes it.
// Where there is a standby, postgres://one,two/...?target_session_attrs=read-write, and it goes on after a failover.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

type job struct {
	id, lease int64
	payload   []byte
}

// The work: committed with the ack, or not at all.
func handle(ctx context.Context, tx pgx.Tx, j job) error {
	var mail struct{ To string }
	if err := json.Unmarshal(j.payload, &mail); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO sent (job_id, address) VALUES ($1, $2)", j.id, mail.To)
	return err
}

// Asks for more time, well within the queue's lease_time.
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
	if err != nil { // tried again after the queue's backoff
		_, err = db.Exec(context.Background(), "SELECT pgq_fail($1, $2, error => $3)", j.id, j.lease, err.Error())
	}
	return err
}

func main() {
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ctx := context.Background() // not stop: a claim that is cancelled may have been answered already
	db, err := pgxpool.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	for stop.Err() == nil {
		var j job
		err = db.QueryRow(ctx, "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')").Scan(&j.id, &j.lease, &j.payload)
		if err == pgx.ErrNoRows {
			err = nil
		} else if err == nil && stop.Err() != nil {
			_, err = db.Exec(ctx, "SELECT pgq_release($1, $2)", j.id, j.lease)
		} else if err == nil {
			err = work(db, j)
		}
		if err != nil { // the pool connects again, to whoever is the primary: what was in hand comes again
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}
