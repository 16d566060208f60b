// Package pgqext enqueues and runs jobs of pgq_ext, the job queue inside PostgreSQL. The packages pgx4 and pgx5 connect it
// with a driver. The reference of pgq_ext says what the functions of the same names do.
package pgqext

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// Version is the version of the library, and of the extension whose functions it calls.
const Version = "0.2.0"

// DB is a connection, a pool or a transaction of a driver. In a transaction, all calls are part of it.
type DB interface {
	// Query returns the rows of an answer that has one column of type text without NULLs. Arguments are nil, bool, int,
	// int64, string, []int64 or []string. An error of the server has the method SQLState() string, or wraps such an error.
	Query(ctx context.Context, sql string, args ...any) ([]string, error)
}

// asJSON is an argument that a function takes as jsonb.
type asJSON struct{ value any }

// rows returns the answer of a function, or of a query in parentheses. Rows travel as JSON: all drivers agree on its types.
func rows[T any](ctx context.Context, db DB, from string, args ...any) (found []T, err error) {
	for i, arg := range args {
		if as, is := arg.(asJSON); is {
			text, err := json.Marshal(as.value)
			if err != nil {
				return nil, err
			}
			args[i] = string(text)
		}
	}
	texts, err := db.Query(ctx, "SELECT coalesce(to_json(r), 'null')::text FROM "+from+" r", args...)
	if err != nil {
		return nil, typed(err)
	}
	return found, json.Unmarshal([]byte("["+strings.Join(texts, ",")+"]"), &found)
}

// row returns the first row of an answer, or a zero value if there is none.
func row[T any](ctx context.Context, db DB, from string, args ...any) (first T, err error) {
	all, err := rows[T](ctx, db, from, args...)
	if len(all) > 0 {
		first = all[0]
	}
	return first, err
}

func interval(d time.Duration) string { return fmt.Sprintf("%d us", d.Microseconds()) }

// A NewJob is a job to enqueue. Fields that are zero have the defaults of pgq_enqueue.
type NewJob struct {
	Payload                     any // is passed as JSON
	Headers                     map[string]any
	Priority, MaxAttempts       int
	Delay, ExpiresIn, UniqueFor time.Duration
	RunAt                       time.Time
	GroupKey, UniqueKey         string
	UniqueUntil, OnConflict     string
	Batch                       int64  // the id of the batch of which the job is a member
	After                       []any  // ids, or refs of other jobs of the call
	Ref, OnParentFailure        string // Ref: a name for After
	Queue                       string // for callbacks of batches
	Topic                       string // for Publish
	MustRoute                   bool   // for Publish: an error if no queue is bound to the topic
}

var innerCapital = regexp.MustCompile("([a-z])([A-Z])")

// MarshalJSON returns the element of the array of pgq_enqueue_many: its keys are the names of the fields, as SQL writes them.
func (j NewJob) MarshalJSON() ([]byte, error) {
	element, fields := map[string]any{}, reflect.ValueOf(j)
	for i := 0; i < fields.NumField(); i++ {
		value := fields.Field(i).Interface()
		if d, is := value.(time.Duration); is {
			value = interval(d)
		}
		if i == 0 || !fields.Field(i).IsZero() {
			element[strings.ToLower(innerCapital.ReplaceAllString(fields.Type().Field(i).Name, "${1}_$2"))] = value
		}
	}
	return json.Marshal(element)
}

// Enqueue adds a job, and returns its id.
func Enqueue(ctx context.Context, db DB, queue string, job NewJob) (int64, error) {
	return row[int64](ctx, db, "pgq_enqueue_many($1, $2::text::jsonb)", queue, asJSON{[]NewJob{job}})
}

// EnqueueMany adds jobs, all or none, and returns their ids.
func EnqueueMany(ctx context.Context, db DB, queue string, jobs []NewJob) ([]int64, error) {
	return rows[int64](ctx, db, "pgq_enqueue_many($1, $2::text::jsonb)", queue, asJSON{jobs})
}

// A Published is a job that Publish has made.
type Published struct {
	Queue string
	ID    int64 `json:"job_id"`
}

// Publish publishes jobs to their topics, all or none, and returns a job for each queue that has got one.
func Publish(ctx context.Context, db DB, jobs ...NewJob) ([]Published, error) {
	return rows[Published](ctx, db, "pgq_publish_many($1::text::jsonb)", asJSON{jobs})
}

// A Batch says what is enqueued when members of a batch end. A callback needs Queue and Payload.
type Batch struct {
	OnSuccess, OnFailure, OnFinish *NewJob
	Metadata                       any
}

// CreateBatch opens a batch, and returns its id.
func CreateBatch(ctx context.Context, db DB, b Batch) (int64, error) {
	return row[int64](ctx, db, `pgq_create_batch(nullif($1::text::jsonb, 'null'), nullif($2::text::jsonb, 'null'),
		nullif($3::text::jsonb, 'null'), nullif($4::text::jsonb, 'null'))`,
		asJSON{b.OnSuccess}, asJSON{b.OnFailure}, asJSON{b.OnFinish}, asJSON{b.Metadata})
}

// CloseBatch closes the batch: its callbacks can follow as soon as its members have ended.
func CloseBatch(ctx context.Context, db DB, batch int64) error {
	_, err := rows[any](ctx, db, "pgq_close_batch($1)", batch)
	return err
}

// Cancel cancels a job, and returns the answer of pgq_cancel, or "" for NULL.
func Cancel(ctx context.Context, db DB, id int64) (string, error) {
	return row[string](ctx, db, "pgq_cancel($1)", id)
}

// A JobResult is the state of a job and, when the job has ended, its result. State is "" if the server does not know the job.
type JobResult struct {
	State, Error string
	Result       json.RawMessage
}

// Result waits up to that time, at most 60 s, for the end of a job.
func Result(ctx context.Context, db DB, id int64, wait time.Duration) (JobResult, error) {
	return row[JobResult](ctx, db, "pgq_result($1, wait => $2::text::interval)", id, interval(wait))
}
