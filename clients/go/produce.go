// Package pgqext enqueues and runs jobs of pgq_ext, the job queue inside PostgreSQL. The packages pgx4 and pgx5 connect
// it with a driver. The reference of pgq_ext says what the functions of the same names do.
package pgqext

import (
	"context"
	"encoding/json"
	"errors"
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

// rows returns the answer of a function, or of a query in parentheses. Rows travel as JSON: all drivers agree on its
// types.
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

// first returns the first row of an answer, or a zero value if there is none.
func first[T any](all []T, err error) (row T, _ error) {
	if len(all) > 0 {
		row = all[0]
	}
	return row, err
}

// errorOf returns only the error of an answer.
func errorOf(_ []any, err error) error { return err }

func interval(d time.Duration) string { return fmt.Sprintf("%d us", d.Microseconds()) }

// An Error is an error of the server. Err is the error of the driver, which has the detail and the hint.
// errors.Is(err, &Error{Code: "40001"}) compares the SQLSTATE.
type Error struct {
	Code string // SQLSTATE
	Err  error
}

// Errors of pgq_ext, for errors.Is.
var (
	ErrStaleLease = &Error{"PQ001", errors.New("the lease is stale")} // another worker may have the job
	ErrQueueFull  = &Error{"PQ002", errors.New("the queue is full")}  // it has as many jobs as max_depth allows
	ErrUnroutable = &Error{"PQ003", errors.New("no queue is bound")}  // to the topic, and MustRoute was set
	ErrNotFound   = &Error{"42704", errors.New("not found")}          // there is no such queue, job or batch
	ErrDuplicate  = &Error{"23505", errors.New("duplicate job")}      // the unique key exists; OnConflict is "error"
)

// Error returns the message of the driver.
func (e *Error) Error() string { return fmt.Sprint(e.Err) }

// Unwrap returns the error of the driver.
func (e *Error) Unwrap() error { return e.Err }

// Is returns whether target is an *Error with the same SQLSTATE.
func (e *Error) Is(target error) bool {
	other, is := target.(*Error)
	return is && other.Code == e.Code
}

// sqlState returns the SQLSTATE of an error of the server, and "" for another error.
func sqlState(err error) string {
	var raised interface{ SQLState() string }
	if errors.As(err, &raised) {
		return raised.SQLState()
	}
	return ""
}

// typed returns an error of the server as an *Error, and another error as it is.
func typed(err error) error {
	if state := sqlState(err); state != "" {
		return &Error{state, err}
	}
	return err
}

// transient matches the SQLSTATE if the call may succeed later: no connection, a standby, a conflict, a timeout, a
// shortage.
var transient = regexp.MustCompile("^($|08|25006|25P0[34]|40|53|55P03|57|58)")

// final matches the SQLSTATE if each further claim would fail, too: no right, no such thing.
var final = regexp.MustCompile("^(42|3F)")

// isTransient returns whether the same call may succeed later, with another connection.
func isTransient(err error) bool { return err != nil && transient.MatchString(sqlState(err)) }

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

// MarshalJSON returns the element of the array of pgq_enqueue_many. Its keys are the names of the fields, as SQL writes
// them.
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
	return first(rows[int64](ctx, db, "pgq_enqueue_many($1, $2::text::jsonb)", queue, asJSON{[]NewJob{job}}))
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
	return first(rows[int64](ctx, db, `pgq_create_batch(nullif($1::text::jsonb, 'null'), nullif($2::text::jsonb, 'null'),
		nullif($3::text::jsonb, 'null'), nullif($4::text::jsonb, 'null'))`,
		asJSON{b.OnSuccess}, asJSON{b.OnFailure}, asJSON{b.OnFinish}, asJSON{b.Metadata}))
}

// CloseBatch closes the batch: its callbacks can follow as soon as its members have ended.
func CloseBatch(ctx context.Context, db DB, batch int64) error {
	return errorOf(rows[any](ctx, db, "pgq_close_batch($1)", batch))
}

// Cancel cancels a job, and returns the answer of pgq_cancel, or "" for NULL.
func Cancel(ctx context.Context, db DB, id int64) (string, error) {
	return first(rows[string](ctx, db, "pgq_cancel($1)", id))
}

// A JobResult is the state of a job and, when the job has ended, its result. State is "" if the server does not know
// the job.
type JobResult struct {
	State, Error string
	Result       json.RawMessage
}

// Result waits up to that time, at most 60 s, for the end of a job.
func Result(ctx context.Context, db DB, id int64, wait time.Duration) (JobResult, error) {
	return first(rows[JobResult](ctx, db, "pgq_result($1, wait => $2::text::interval)", id, interval(wait)))
}
