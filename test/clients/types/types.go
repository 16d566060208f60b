package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
	"github.com/lib/pq"
)

type ticket struct{ id, lease int64 }

// What the two drivers do in the same way, and what they do not.
type driver struct {
	scan                  func(sql string, values []any, into ...any) error
	ids                   func(...int64) any
	names                 func(...string) any
	payload, hour, nobody any
}

func pgxDriver() driver {
	db, err := pgx.Connect(context.Background(), "")
	if err != nil {
		log.Fatal(err)
	}
	return driver{
		scan: func(sql string, values []any, into ...any) error {
			return db.QueryRow(context.Background(), sql, values...).Scan(into...)
		},
		ids:     func(ids ...int64) any { return append([]int64{}, ids...) },
		names:   func(names ...string) any { return append([]string{}, names...) },
		payload: map[string]string{"to": "ada"},
		hour:    time.Hour,
		nobody:  []int64(nil),
	}
}

func pqDriver() driver {
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		log.Fatal(err)
	}
	return driver{
		scan: func(sql string, values []any, into ...any) error { return db.QueryRow(sql, values...).Scan(into...) },
		ids:     func(ids ...int64) any { return pq.Array(append([]int64{}, ids...)) },
		names:   func(names ...string) any { return pq.Array(append([]string{}, names...)) },
		payload: []byte(`{"to": "ada"}`),
		hour:    "1 h",
		nobody:  pq.Array([]int64(nil)),
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	d := pgxDriver()
	if os.Args[1] == "pq" {
		d = pqDriver()
	}
	tell := func(what, sql string, values ...any) {
		var answer string
		var pgxError *pgconn.PgError
		var pqError *pq.Error
		if err := d.scan(sql, values, &answer); errors.As(err, &pgxError) {
			answer = pgxError.Code
		} else if errors.As(err, &pqError) {
			answer = string(pqError.Code)
		} else if err != nil {
			answer = err.Error()
		}
		fmt.Println(what + ": " + answer)
	}
	tell("id", "SELECT pgq_enqueue($1, $2)::text", "mail", d.payload)
	tell("NULL for all that may be", "SELECT (pgq_enqueue($1, $2, delay => $3, headers => $4, max_attempts => $5) > 0)::text", "mail", "[]", nil, nil, nil)
	tell("NULL as JSON", "SELECT (pgq_enqueue($1, $2) > 0)::text", "mail", []byte("null"))
	tell("NULL payload", "SELECT pgq_enqueue($1, $2)::text", "mail", nil)
	tell("interval", "SELECT (pgq_enqueue('mail', '1', delay => $1) > 0)::text", d.hour)
	tell("a Duration", "SELECT extract(epoch FROM $1::interval)::bigint::text", time.Second)
	tell("NULL arrays", "SELECT count(*)::text FROM pgq_ack_many($1, $2)", nil, nil)
	tell("nil slices", "SELECT count(*)::text FROM pgq_ack_many($1, $2)", d.nobody, d.nobody)
	tell("one NULL array", "SELECT count(*)::text FROM pgq_ack_many($1, $2)", d.ids(), nil)
	tell("empty arrays", "SELECT count(*)::text FROM pgq_ack_many($1, $2)", d.ids(), d.ids())
	var j ticket
	var payload any
	must(d.scan("SELECT job_id, lease, payload FROM pgq_ack_claim($1, $2, $3)", []any{d.ids(), d.ids(), "mail"}, &j.id, &j.lease, &payload))
	fmt.Printf("payload: %T\n", payload)
	tell("arrays", "SELECT payload::text FROM pgq_ack_claim($1, $2, 'mail')", d.ids(j.id), d.ids(j.lease))
	tell("no queues", "SELECT count(*)::text FROM pgq_claim_any($1, wait => '1 ms')", d.names())
	must(d.scan("SELECT job_id, lease FROM pgq_claim_any($1)", []any{d.names("other", "mail")}, &j.id, &j.lease))
	tell("why NULL", "SELECT pgq_fail($1, $2, error => $3, retry_in => $4)", j.id, j.lease, nil, nil)
	var id int64
	must(d.scan("SELECT pgq_enqueue($1, $2)", []any{"other", "1"}, &id))
	must(d.scan("SELECT job_id, lease FROM pgq_claim($1, $2)", []any{"other", 1}, &j.id, &j.lease))
	tell("false", "SELECT pgq_fail($1, $2, retry => $3)", j.id, j.lease, false)
}
