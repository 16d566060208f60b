package pgqext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"reflect"
	"sync/atomic"
	"syscall"
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
	DB                DB              `json:"-"`          // for the handler: its transaction with Tx, else the pool
	Outcome           string          `json:"-"`          // in the end: acked, retry, dead, released, stale or unknown
	Err               error           `json:"-"`          // why the job was not acked

	ctx    context.Context
	cancel context.CancelFunc
	lost   atomic.Bool
	expiry *time.Timer // when the lease ends unless it is extended
	acked  chan error  // what came of the acknowledgement
}

// Lost returns whether the context of the handler was cancelled because the lease is lost or the job is cancelled.
func (j *Job) Lost() bool { return j.lost.Load() }

// lose cancels the context of the handler, since the lease is lost.
func (j *Job) lose() {
	j.lost.Store(true)
	j.cancel()
}

// Progress stores how far the work has come; the next attempt finds it in LastProgress.
func (j *Job) Progress(ctx context.Context, value any) error {
	return errorOf(rows[any](ctx, j.DB, "pgq_progress($1, $2, $3::text::jsonb)", j.ID, j.Lease, asJSON{value}))
}

// Checkpoint keeps the value of a step, once for all attempts, and returns the value that is kept, or null. With the
// value nil it only reads.
func (j *Job) Checkpoint(ctx context.Context, step string, value any) (json.RawMessage, error) {
	return first(rows[json.RawMessage](ctx, j.DB, "pgq_checkpoint($1, $2, $3, nullif($4::text::jsonb, 'null'))",
		j.ID, j.Lease, step, asJSON{value}))
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
	return errorOf(rows[any](ctx, j.DB, "pgq_assert_lease($1, $2)", j.ID, j.Lease))
}

// A Handler does the work of a job. ctx is cancelled when the lease is lost, the job is cancelled, or the worker must
// end at once. What the handler returns is the result of the job; nil: none.
type Handler func(ctx context.Context, job *Job) (any, error)

// A verdict is an error by which a handler decides what becomes of its job.
type verdict struct {
	error
	release, retry bool
	in             any // an interval; nil: the backoff of the queue
}

func (v *verdict) Unwrap() error { return v.error }

// Discard makes a handler's error final: the job becomes a dead letter at once.
func Discard(err error) error { return &verdict{error: err} }

// RetryIn lets the attempt fail, and the next one begin after that time.
func RetryIn(d time.Duration, err error) error {
	return &verdict{error: err, retry: true, in: interval(d)}
}

// Release gives the job back, to be handed out after that time. No attempt is counted.
func Release(d time.Duration) error {
	return &verdict{error: fmt.Errorf("released for %v", d), release: true, in: interval(d)}
}

// Conn is a connection of its own, which an adapter makes.
type Conn interface {
	DB
	// InTx calls body in a transaction. If body returns nil, InTx commits, else it rolls back and returns the error.
	InTx(ctx context.Context, body func(DB) error) error
	// IsClosed is also true after an error by which the connection cannot be used any more.
	IsClosed() bool
	Close(ctx context.Context) error
}

// Logger gets the messages of the worker: a text, then names and values in turn. A *slog.Logger is a Logger.
type Logger interface {
	Info(message string, fields ...any)
	Error(message string, fields ...any)
}

// errorLog is the default Logger.
type errorLog struct{}

func (errorLog) Info(string, ...any) {}

func (errorLog) Error(message string, fields ...any) { log.Println("pgq_ext:", message, fields) }

// A Worker runs the jobs of one or more queues. One connection claims jobs and extends their leases; a pool of others
// acknowledges them, and has the transactions of handlers. Connect, Queues and Handler are required.
type Worker struct {
	Connect     func(context.Context) (Conn, error) // how to connect to the primary
	Queues      []string                            // the first ones first
	Handler     Handler
	Concurrency int           // how many jobs run at a time; default 1
	Tx          bool          // the handler and the ack are one transaction
	Wait        time.Duration // how long a claim waits for a job, and a stop for a claim; default 5 s
	Heartbeat   time.Duration // time between two extensions of a lease, at most a third of the lease; default 5 s
	LeaseTime   time.Duration // default: the lease_time of the queue
	StopTimeout time.Duration // until a stop aborts the handlers that still run; negative: at once; default 30 s
	Pool        int           // size of the pool; default: Concurrency with Tx, else 1
	Label       string        // of the worker, in views; default: application_name
	Log         Logger        // default: errors go to the package log

	// Hooks. Before returns the context of the handler and of After, for example one with a span of a trace. Error gets
	// errors that are not of a job; the worker goes on.
	Before func(ctx context.Context, job *Job) context.Context
	After  func(ctx context.Context, job *Job)
	Error  func(err error)
}

// Main calls Run, and stops it on SIGTERM or SIGINT. If Run returns an error, Main logs the error and ends the program.
// The main function of a worker needs nothing else.
func (w Worker) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := w.Run(ctx); err != nil {
		log.Fatalln("pgq_ext:", err)
	}
}

// Run runs jobs until ctx is done. Then it claims no more jobs, and returns when those in work have ended. After
// StopTimeout the contexts of the handlers that still run are cancelled, and jobs whose handlers then return an error
// are released, without a counted attempt. Run returns an error if there is no primary at the start, or if the worker
// cannot claim: it has no right, or there is no such queue or no extension.
func (w Worker) Run(ctx context.Context) error { return w.start(ctx, (*running).work) }

// Drain is for tests: it runs the jobs that are ready, one by one, until no job is ready. It returns the jobs, whose
// Outcome and Err say what became of them.
func (w Worker) Drain(ctx context.Context) (jobs []*Job, err error) {
	err = w.start(ctx, func(r *running) error {
		for {
			job, err := first(r.claim(1, 0))
			if job == nil {
				return err
			}
			r.attempt(job)
			jobs = append(jobs, job)
		}
	})
	return jobs, err
}

// start sets the defaults, calls work, and then closes the connections.
func (w Worker) start(ctx context.Context, work func(*running) error) error {
	if w.Connect == nil || w.Handler == nil || len(w.Queues) == 0 {
		return errors.New("a worker needs Connect, Queues and Handler")
	}
	orElse(&w.Concurrency, 1)
	orElse(&w.Wait, 5*time.Second)
	orElse(&w.Heartbeat, 5*time.Second)
	orElse(&w.StopTimeout, 30*time.Second)
	if w.Tx {
		orElse(&w.Pool, w.Concurrency)
	}
	orElse(&w.Pool, 1)
	orElse[Logger](&w.Log, errorLog{})
	orElse(&w.Before, func(ctx context.Context, _ *Job) context.Context { return ctx })
	orElse(&w.After, func(context.Context, *Job) {})
	orElse(&w.Error, func(error) {})
	r := &running{Worker: w, every: w.Heartbeat.Seconds()}
	r.acks, r.changed = make(chan *Job, w.Concurrency), make(chan bool, 1)
	r.control = pool{r, make(chan Conn, 1), patience, 1}
	r.pool = pool{r, make(chan Conn, w.Pool), patience, 12}
	for _, p := range []pool{r.control, r.pool} {
		for len(p.conns) < cap(p.conns) {
			p.conns <- nil
		}
		defer p.close()
	}
	r.stopping, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.aborting, r.abort = context.WithCancel(context.Background())
	go r.acknowledgeAll()
	defer close(r.acks)
	return work(r)
}

// orElse sets an option that is zero.
func orElse[T any](option *T, value T) {
	if reflect.ValueOf(option).Elem().IsZero() {
		*option = value
	}
}
