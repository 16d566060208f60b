package pgqext

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand"
	"sync"
	"time"
)

// A Handler does the work of a job. ctx is cancelled when the lease is lost, the job is cancelled, or the worker must end
// at once. What it returns is the result of the job; nil: none.
type Handler func(ctx context.Context, job *Job) (any, error)

// A Worker runs the jobs of one or more queues. One connection claims jobs and extends their leases; a pool of others
// acknowledges them, and has the transactions of handlers. Connect, Queues and Handler are required.
type Worker struct {
	Connect     func(context.Context) (Conn, error) // how to connect to the primary
	Queues      []string
	Handler     Handler
	Concurrency int           // how many jobs run at a time; default 1
	Tx          bool          // the handler and the ack are one transaction, in job.Tx
	Wait        time.Duration // how long a claim waits for a job, and a stop for a claim; default 5 s
	Heartbeat   time.Duration // time between two extensions of leases, at most a third of a lease; default 5 s
	LeaseTime   time.Duration // default: the lease_time of the queue
	StopTimeout time.Duration // time after which a stop aborts the handlers that still run; default 30 s
	Pool        int           // size of the pool; default: Concurrency with Tx, else 1
	Label       string        // of the worker, in views; default: application_name
	Before      func(*Job)
	After       func(job *Job, outcome string, err error) // outcome: acked, retry, dead, released, stale or unknown
	Error       func(error)                               // an error that is not of a job; the worker goes on
	Log         func(level, message string)               // default: errors go to the package log

	stopping, aborting context.Context
	control            Conn
	pool               chan Conn
	changed            chan struct{} // a job has ended
	beat               time.Time     // when the leases must be extended
	interval           time.Duration
	mutex, ackMutex    sync.Mutex
	running            map[int64]*Job
	acks               []*pendingAck
}

type pendingAck struct {
	job         *Job
	done, acked bool
	err         error
}

func (w *Worker) setDefaults() {
	for _, d := range []struct {
		option *time.Duration
		value  time.Duration
	}{{&w.Wait, 5 * time.Second}, {&w.Heartbeat, 5 * time.Second}, {&w.StopTimeout, 30 * time.Second}} {
		if *d.option == 0 {
			*d.option = d.value
		}
	}
	w.Concurrency = max(w.Concurrency, 1)
	if w.Pool == 0 && w.Tx {
		w.Pool = w.Concurrency
	}
	w.Pool = max(w.Pool, 1)
	if w.Log == nil {
		w.Log = func(level, message string) {
			if level == "error" {
				log.Printf("pgq_ext: %s", message)
			}
		}
	}
	w.pool, w.changed, w.running = make(chan Conn, w.Pool), make(chan struct{}, 1), map[int64]*Job{}
	for i := 0; i < w.Pool; i++ {
		w.pool <- nil
	}
}

// Run runs jobs until ctx is done (see signal.NotifyContext). Then it claims no more jobs, and returns when those in work
// have ended. After StopTimeout the contexts of the handlers that still run are cancelled, and jobs whose handlers then
// return an error are released, without a counted attempt. Run returns an error if there is no primary or no such queue at
// the start.
func (w *Worker) Run(ctx context.Context) (err error) {
	w.setDefaults()
	if w.control, err = w.Connect(ctx); err != nil {
		return err
	}
	defer w.drop()
	jobs, err := w.claim(w.Concurrency, 0)
	if err != nil {
		return err
	}
	var abort func()
	w.stopping = ctx
	w.aborting, abort = context.WithCancel(context.Background())
	defer abort()
	go func() {
		<-ctx.Done()
		time.Sleep(w.StopTimeout)
		abort()
	}()
	w.take(jobs)
	for tries := 0; ctx.Err() == nil || w.count() > 0; tries++ {
		if err := w.round(); err == nil {
			tries = -1
		} else {
			w.report(err)
			w.drop()
			w.pause(backoff(tries))
		}
	}
	for i := 0; i < w.Pool; i++ {
		if conn := <-w.pool; conn != nil {
			conn.Close(context.Background())
		}
	}
	return nil
}

// backoff is how long to wait after that many failed tries: at random, so that not all workers come at once.
func backoff(tries int) time.Duration {
	return time.Duration(math.Min(10, 0.5*math.Pow(2, float64(tries))) * (0.5 + rand.Float64()) * float64(time.Second))
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// ---- claims and heartbeats ----

// jobs returns the jobs in work whose handlers have not ended.
func (w *Worker) jobs() (jobs []*Job) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, job := range w.running {
		if !job.hasEnded() {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

func (w *Worker) count() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.running)
}

// round extends the leases if it is time; then it claims jobs for free hands, or waits for a hand.
func (w *Worker) round() (err error) {
	if w.control == nil {
		if w.control, err = w.connect(); err != nil {
			return err
		}
	}
	busy, left := w.count(), time.Duration(math.MaxInt64)
	if busy > 0 {
		if left = time.Until(w.beat); left <= 0 {
			if err := w.extend(); err != nil {
				return err
			}
			left = w.interval
		}
	}
	if w.stopping.Err() != nil || busy >= w.Concurrency {
		w.pause(min(left, time.Second))
		return nil
	}
	jobs, err := w.claim(w.Concurrency-busy, min(left, w.Wait))
	w.take(jobs)
	return err
}

func (w *Worker) connect() (Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return w.Connect(ctx)
}

func (w *Worker) claim(most int, wait time.Duration) ([]*Job, error) {
	return claim(context.Background(), w.control, w.Queues, most, wait, w.LeaseTime, w.Label)
}

func (w *Worker) take(jobs []*Job) {
	for _, job := range jobs {
		w.interval = min(w.Heartbeat, time.Duration(job.seconds/3*float64(time.Second)))
		w.mutex.Lock()
		if len(w.running) == 0 {
			w.beat = time.Now().Add(w.interval)
		}
		w.running[job.ID] = job
		w.mutex.Unlock()
		job.ctx, job.cancel = context.WithCancel(w.aborting)
		job.db = poolDB{w}
		go w.attempt(job)
	}
}

func (w *Worker) extend() error {
	jobs := w.jobs()
	held, err := extend(context.Background(), w.control, jobs)
	if err != nil {
		return err
	}
	w.beat = time.Now().Add(w.interval)
	for _, job := range jobs {
		if !held[job.ID] {
			job.lose()
		}
	}
	return nil
}

// pause waits that long, or until a job has ended or the worker is stopped.
func (w *Worker) pause(d time.Duration) {
	stopped := w.stopping.Done()
	if w.stopping.Err() != nil {
		stopped = nil
	}
	select {
	case <-time.After(d):
	case <-w.changed:
	case <-stopped:
	}
}

func (w *Worker) drop() {
	if w.control != nil {
		w.control.Close(context.Background())
		w.control = nil
	}
}

func (w *Worker) report(err error) {
	w.Log("error", err.Error())
	if w.Error != nil {
		w.hook(func() { w.Error(err) })
	}
}

// hook calls a hook, which must not stop the worker.
func (w *Worker) hook(call func()) {
	defer func() {
		if problem := recover(); problem != nil {
			w.Log("error", fmt.Sprintf("hook: %v", problem))
		}
	}()
	call()
}

// ---- one job ----

// attempt runs the handler, and gives its answer to the server.
func (w *Worker) attempt(job *Job) {
	defer func() {
		job.cancel()
		w.mutex.Lock()
		delete(w.running, job.ID)
		w.mutex.Unlock()
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}()
	if w.stopping.Err() != nil {
		w.answer(job, Release(0))
		return
	}
	if w.Before != nil {
		w.hook(func() { w.Before(job) })
	}
	outcome, err := "acked", w.finish(job)
	if err != nil {
		outcome = w.answer(job, err)
	}
	if w.After != nil {
		w.hook(func() { w.After(job, outcome, err) })
	}
}

// finish runs the handler, and acknowledges the job.
func (w *Worker) finish(job *Job) error {
	if w.Tx {
		return w.use(func(conn Conn) error { return job.inTransaction(conn, w.Handler) })
	}
	result, err := job.handle(w.Handler)
	job.setEnded(true)
	if err == nil && result != nil {
		return w.persist(func(conn Conn) error { return ack(context.Background(), conn, job, result) })
	} else if err == nil {
		return w.acknowledge(job)
	}
	return err
}

// acknowledge acknowledges together what ends together.
func (w *Worker) acknowledge(job *Job) error {
	mine := &pendingAck{job: job}
	w.mutex.Lock()
	w.acks = append(w.acks, mine)
	w.mutex.Unlock()
	w.ackMutex.Lock()
	defer w.ackMutex.Unlock()
	if !mine.done {
		w.mutex.Lock()
		batch := w.acks
		w.acks = nil
		w.mutex.Unlock()
		var jobs []*Job
		for _, pending := range batch {
			jobs = append(jobs, pending.job)
		}
		var acked map[int64]bool
		err := w.persist(func(conn Conn) (err error) { acked, err = ackMany(context.Background(), conn, jobs); return err })
		for _, pending := range batch {
			pending.done, pending.acked, pending.err = true, acked[pending.job.ID], err
		}
	}
	if mine.err == nil && !mine.acked {
		return ErrStaleLease
	}
	return mine.err
}

// answer reports the error of a job, and returns what became of the job.
func (w *Worker) answer(job *Job, err error) (outcome string) {
	w.Log("info", fmt.Sprintf("job %d failed: %v", job.ID, err))
	if errors.Is(err, ErrStaleLease) || job.Lost() {
		return "stale"
	}
	v := verdictOf(err, w.aborting.Err() != nil)
	problem := w.persist(func(conn Conn) (err error) { outcome, err = settle(context.Background(), conn, job, v); return err })
	if problem != nil {
		w.report(problem)
		return "unknown"
	}
	return outcome
}

// use calls body with a connection of the pool. One that was lost is replaced when it is needed.
func (w *Worker) use(body func(Conn) error) (err error) {
	conn := <-w.pool
	defer func() { w.pool <- conn }()
	if conn == nil || conn.IsClosed() {
		conn = nil
		fresh, err := w.connect()
		if err != nil {
			return err
		}
		conn = fresh
	}
	return body(conn)
}

// persist repeats the call while there is no server, as long as the job may still be this worker's.
func (w *Worker) persist(call func(Conn) error) error {
	for tries := 0; ; tries++ {
		err := w.use(call)
		if err == nil || isOfServer(err) || tries == 11 || w.stopping.Err() != nil && tries > 0 {
			return err
		}
		time.Sleep(backoff(tries - 1))
	}
}

// poolDB is what the methods of a job use without Tx.
type poolDB struct{ w *Worker }

func (p poolDB) Exec(ctx context.Context, sql string, args ...any) error {
	return p.w.use(func(conn Conn) error { return conn.Exec(ctx, sql, args...) })
}

func (p poolDB) Query(ctx context.Context, sql string, args []any, scan func(Row) error) error {
	return p.w.use(func(conn Conn) error { return conn.Query(ctx, sql, args, scan) })
}

// Drain is for tests: it runs the jobs that are ready, one by one, until no job is ready, and returns what became of them.
// tx: each handler runs in a transaction.
func Drain(ctx context.Context, conn Conn, queues []string, handler Handler, tx bool) (outcomes []string, err error) {
	for {
		jobs, err := claim(ctx, conn, queues, 1, 0, 0, "")
		if err != nil || len(jobs) == 0 {
			return outcomes, err
		}
		job, outcome := jobs[0], "acked"
		job.ctx, job.cancel, job.db = ctx, func() {}, conn
		if tx {
			err = job.inTransaction(conn, handler)
		} else if result, problem := job.handle(handler); problem != nil {
			err = problem
		} else {
			err = ack(ctx, conn, job, result)
		}
		if errors.Is(err, ErrStaleLease) {
			outcome = "stale"
		} else if err != nil {
			if outcome, err = settle(ctx, conn, job, verdictOf(err, false)); err != nil {
				return outcomes, err
			}
		}
		outcomes = append(outcomes, outcome)
	}
}
