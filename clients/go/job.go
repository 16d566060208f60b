package pgqext

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"
)

// A Job is a job that a worker has claimed. With Tx its methods are part of the transaction of the handler.
type Job struct {
	ID                int64 `json:"job_id"`
	Lease             int64
	Queue             string
	Payload, Headers  json.RawMessage // null if there are none
	GroupKey          string          `json:"group_key"`
	Priority, Attempt int             // Attempt is 1 for the first try
	MaxAttempts       int             `json:"max_attempts"`
	EnqueuedAt        time.Time       `json:"enqueued_at"`
	RunAt             time.Time       `json:"run_at"`
	LastError         string          `json:"last_error"` // of the attempt before
	LastProgress      json.RawMessage `json:"progress"`   // what an earlier attempt has passed to Progress
	LeaseSeconds      float64         `json:"seconds"`    // length of the lease
	DB                DB              `json:"-"`          // for the handler: its transaction with Tx, else the pool of the worker
	Outcome           string          `json:"-"`          // after the handler: acked, retry, dead, released, stale or unknown
	Err               error           `json:"-"`          // why the job was not acked

	ctx    context.Context
	cancel context.CancelFunc
	acked  chan error
	lost   atomic.Bool
	// When the lease ends if nobody extends it; only the goroutine of Run reads and writes it.
	expires time.Time
}

// Lost returns whether the context of the handler was cancelled because the lease is lost or the job is cancelled.
func (j *Job) Lost() bool { return j.lost.Load() }

// Progress stores how far the work has come; the next attempt finds it in LastProgress.
func (j *Job) Progress(ctx context.Context, value any) error {
	_, err := rows[any](ctx, j.DB, "pgq_progress($1, $2, $3::text::jsonb)", j.ID, j.Lease, asJSON{value})
	return err
}

// Checkpoint keeps the value of a step, once for all attempts, and returns the value that is kept, or null. With the value
// nil it only reads.
func (j *Job) Checkpoint(ctx context.Context, step string, value any) (json.RawMessage, error) {
	return row[json.RawMessage](ctx, j.DB, "pgq_checkpoint($1, $2, $3, nullif($4::text::jsonb, 'null'))",
		j.ID, j.Lease, step, asJSON{value})
}

// A Parent is a job after which another one was enqueued.
type Parent struct {
	ID                int64 `json:"job_id"`
	Ref, State, Error string
	Result            json.RawMessage
}

// Parents returns the jobs after which this one was enqueued.
func (j *Job) Parents(ctx context.Context) ([]Parent, error) {
	return rows[Parent](ctx, j.DB, "pgq_parents($1, $2)", j.ID, j.Lease)
}

// AssertLease returns ErrStaleLease if the lease has ended. In a transaction, it keeps the lease until its end.
func (j *Job) AssertLease(ctx context.Context) error {
	_, err := rows[any](ctx, j.DB, "pgq_assert_lease($1, $2)", j.ID, j.Lease)
	return err
}
