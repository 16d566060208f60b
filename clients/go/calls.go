// Package pgqext enqueues and runs jobs of pgq_ext, the job queue inside PostgreSQL. The package pgx4 has the adapter for
// the driver pgx 4. The reference of pgq_ext says what the functions of the same names do.
package pgqext

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// DB is a connection, a pool or a transaction. In a transaction, all calls are part of it.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) error
	// Query calls scan for each row of the answer. Arrays of bigint are passed as []int64 and of text as []string.
	Query(ctx context.Context, sql string, args []any, scan func(Row) error) error
}

// A Row is a row of an answer.
type Row interface {
	Scan(dest ...any) error
}

// Conn is a connection of its own, which an adapter makes.
type Conn interface {
	DB
	IsClosed() bool
	Close(ctx context.Context) error
	Raw() any // the connection of the driver
}

// Options of a job; those that are not set have the defaults of pgq_enqueue.
type Options struct {
	Priority        int           `json:"priority,omitempty"`
	Delay           time.Duration `json:"-"`
	RunAt           *time.Time    `json:"run_at,omitempty"`
	GroupKey        string        `json:"group_key,omitempty"`
	UniqueKey       string        `json:"unique_key,omitempty"`
	UniqueUntil     string        `json:"unique_until,omitempty"`
	UniqueFor       time.Duration `json:"-"`
	OnConflict      string        `json:"on_conflict,omitempty"`
	Headers         any           `json:"headers,omitempty"`
	MaxAttempts     int           `json:"max_attempts,omitempty"`
	ExpiresIn       time.Duration `json:"-"`
	Batch           int64         `json:"batch,omitempty"`
	After           []any         `json:"after,omitempty"` // ids, or refs of other jobs of the call
	OnParentFailure string        `json:"on_parent_failure,omitempty"`
	Ref             string        `json:"ref,omitempty"` // only for EnqueueMany
	MustRoute       bool          `json:"must_route,omitempty"`
}

// A NewJob is a job of an array. Queue is only for callbacks of batches, Topic only for PublishMany.
type NewJob struct {
	Payload any
	Queue   string
	Topic   string
	Options
}

// A Published is a job that a publish has made.
type Published struct {
	Queue string
	ID    int64
}

func interval(d time.Duration) string { return fmt.Sprintf("%d us", d.Microseconds()) }

// MarshalJSON returns the element of the array of pgq_enqueue_many.
func (j NewJob) MarshalJSON() ([]byte, error) {
	more := map[string]any{"payload": j.Payload}
	for name, value := range map[string]string{"queue": j.Queue, "topic": j.Topic} {
		if value != "" {
			more[name] = value
		}
	}
	for name, value := range map[string]time.Duration{"delay": j.Delay, "unique_for": j.UniqueFor, "expires_in": j.ExpiresIn} {
		if value != 0 {
			more[name] = interval(value)
		}
	}
	options, err := json.Marshal(j.Options)
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(more)
	if err != nil || string(options) == "{}" {
		return rest, err
	}
	return append(append(rest[:len(rest)-1], ','), options[1:]...), nil
}

func query(ctx context.Context, db DB, sql string, args []any, scan func(Row) error) error {
	return typed(db.Query(ctx, sql, args, scan))
}

// one reads an answer of one row into dest.
func one(ctx context.Context, db DB, sql string, args []any, dest ...any) error {
	found := false
	err := query(ctx, db, sql, args, func(row Row) error { found = true; return row.Scan(dest...) })
	if err == nil && !found {
		return errNoRow
	}
	return err
}

func ids(ctx context.Context, db DB, sql string, args ...any) ([]int64, error) {
	var found []int64
	err := query(ctx, db, sql, args, func(row Row) error {
		var id int64
		err := row.Scan(&id)
		found = append(found, id)
		return err
	})
	return found, err
}

func jsonOf(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// Enqueue adds a job, and returns its id.
func Enqueue(ctx context.Context, db DB, queue string, payload any, o Options) (int64, error) {
	found, err := EnqueueMany(ctx, db, queue, []NewJob{{Payload: payload, Options: o}})
	if err != nil {
		return 0, err
	}
	return found[0], nil
}

// EnqueueMany adds jobs, all or none, and returns their ids.
func EnqueueMany(ctx context.Context, db DB, queue string, jobs []NewJob) ([]int64, error) {
	text, err := jsonOf(jobs)
	if err != nil {
		return nil, err
	}
	return ids(ctx, db, "SELECT pgq_enqueue_many($1::text, $2::text::jsonb)", queue, text)
}

func published(ctx context.Context, db DB, sql string, args ...any) (found []Published, err error) {
	err = query(ctx, db, sql, args, func(row Row) error {
		var job Published
		err := row.Scan(&job.Queue, &job.ID)
		found = append(found, job)
		return err
	})
	return found, err
}

// Publish publishes a job to a topic, and returns a job for each queue that has got one.
func Publish(ctx context.Context, db DB, topic string, payload any, o Options) ([]Published, error) {
	return PublishMany(ctx, db, []NewJob{{Topic: topic, Payload: payload, Options: o}})
}

// PublishMany publishes jobs, all or none.
func PublishMany(ctx context.Context, db DB, jobs []NewJob) ([]Published, error) {
	text, err := jsonOf(jobs)
	if err != nil {
		return nil, err
	}
	return published(ctx, db, "SELECT queue, job_id FROM pgq_publish_many($1::text::jsonb)", text)
}

// A Batch says what is enqueued when members of a batch end. A callback needs Queue and Payload.
type Batch struct {
	OnSuccess, OnFailure, OnFinish *NewJob
	Metadata                       any
}

// CreateBatch opens a batch, and returns its id.
func CreateBatch(ctx context.Context, db DB, b Batch) (id int64, err error) {
	args := make([]any, 4)
	for i, value := range []any{b.OnSuccess, b.OnFailure, b.OnFinish, b.Metadata} {
		if job, is := value.(*NewJob); value != nil && (!is || job != nil) {
			if args[i], err = jsonOf(value); err != nil {
				return 0, err
			}
		}
	}
	err = one(ctx, db, `SELECT pgq_create_batch(on_success => $1::text::jsonb, on_failure => $2::text::jsonb,
		on_finish => $3::text::jsonb, metadata => $4::text::jsonb)`, args, &id)
	return id, err
}

// CloseBatch closes the batch: its callbacks can follow as soon as its members have ended.
func CloseBatch(ctx context.Context, db DB, batch int64) error {
	return typed(db.Exec(ctx, "SELECT pgq_close_batch($1)", batch))
}

// Cancel cancels a job; the answer is that of pgq_cancel, or "" for NULL.
func Cancel(ctx context.Context, db DB, id int64) (answer string, err error) {
	err = one(ctx, db, "SELECT coalesce(pgq_cancel($1), '')", []any{id}, &answer)
	return answer, err
}

// Result waits up to that time for the end of a job. state is "" if the server does not know the job (any more).
func Result(ctx context.Context, db DB, id int64, wait time.Duration) (state string, result json.RawMessage, err error) {
	var text *string
	err = query(ctx, db, "SELECT state, result::text FROM pgq_result($1, wait => $2::text::interval)", []any{id, interval(wait)},
		func(row Row) error { return row.Scan(&state, &text) })
	if text != nil {
		result = json.RawMessage(*text)
	}
	return state, result, err
}
