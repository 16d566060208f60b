package pgqext

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A Handler does the work of a job. ctx is cancelled when the lease is lost, the job is cancelled, or the worker must end
// at once. What the handler returns is the result of the job; nil: none.
type Handler func(ctx context.Context, job *Job) (any, error)

// Conn is a connection of its own, which an adapter makes.
type Conn interface {
	DB
	InTx(ctx context.Context, body func(DB) error) error // calls body in a transaction; if body returns nil, commits
	IsClosed() bool                                      // also after an error by which the connection cannot be used any more
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
	StopTimeout time.Duration // time after which a stop aborts the handlers that still run; negative: at once; default 30 s
	Pool        int           // size of the pool; default: Concurrency with Tx, else 1
	Label       string        // of the worker, in views; default: application_name
	Log         Logger        // default: errors go to the package log

	// Hooks. Before returns the context of the handler and of After, for example one with a span of a trace. Error gets
	// errors that are not of a job; the worker goes on.
	Before func(ctx context.Context, job *Job) context.Context
	After  func(ctx context.Context, job *Job)
	Error  func(err error)
}

// Main calls Run, and stops it on SIGTERM or SIGINT. If Run returns an error, Main logs the error and ends the program. The
// main function of a worker needs nothing else.
func (w Worker) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := w.Run(ctx); err != nil {
		log.Fatalln("pgq_ext:", err)
	}
}

// Run runs jobs until ctx is done. Then it claims no more jobs, and returns when those in work have ended. After StopTimeout
// the contexts of the handlers that still run are cancelled, and jobs whose handlers then return an error are released,
// without a counted attempt. Run returns an error if there is no primary at the start, or if the worker cannot claim: it has no
// right, or there is no such queue or no extension.
func (w Worker) Run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	begin := func(job *Job) { go r.attempt(job) }
	if err = r.claim(r.Concurrency, 0, begin); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		say(r.Log.Info, "stopping", "running", len(r.jobs()))
		r.wake()
		time.AfterFunc(r.StopTimeout, r.abort)
	}()
	for tries := 0; ctx.Err() == nil || len(r.jobs()) > 0; tries++ {
		if problem := r.round(begin); problem == nil {
			tries = -1
		} else {
			r.report(problem)
			r.cancelExpired()
			if isFinal(problem) {
				err = problem
				stop()
			}
			r.pause(backoff(tries))
		}
	}
	say(r.Log.Info, "stopped")
	return err
}

// Drain is for tests: it runs the jobs that are ready, one by one, until no job is ready. It returns the jobs, whose Outcome
// and Err say what became of them.
func (w Worker) Drain(ctx context.Context) (jobs []*Job, err error) {
	r, err := w.start(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	for before := -1; len(jobs) > before && err == nil; {
		before = len(jobs)
		err = r.claim(1, 0, func(job *Job) { jobs = append(jobs, job); r.attempt(job) })
	}
	return jobs, err
}

// start sets the defaults, and returns what a running worker needs.
func (w Worker) start(ctx context.Context) (*running, error) {
	if w.Connect == nil || w.Handler == nil || len(w.Queues) == 0 {
		return nil, errors.New("a worker needs Connect, Queues and Handler")
	}
	orElse(&w.Concurrency, 1)
	orElse(&w.Wait, 5*time.Second)
	orElse(&w.Heartbeat, 5*time.Second)
	orElse(&w.StopTimeout, 30*time.Second)
	if w.Tx {
		orElse(&w.Pool, w.Concurrency)
	}
	orElse(&w.Pool, 1)
	if w.Log == nil {
		w.Log = errorLog{}
	}
	r := &running{Worker: w, stopping: ctx, every: w.Heartbeat.Seconds(), control: make(pool, 1), pool: make(pool, w.Pool), changed: make(chan bool, 1),
		acks: make(chan *Job, w.Concurrency), held: map[*Job]bool{}}
	r.aborting, r.abort = context.WithCancel(context.Background())
	r.control <- nil
	for i := 0; i < w.Pool; i++ {
		r.pool <- nil
	}
	go r.acknowledgeAll()
	return r, nil
}

// orElse sets an option that is zero.
func orElse[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}
