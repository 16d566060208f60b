package pgqext

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"os/signal"
	"sync"
	"time"
)

// Outcomes of an attempt.
const (
	Acked    = "acked"
	Retry    = "retry"
	Dead     = "dead"
	Released = "released"
	Stale    = "stale"
	Unknown  = "unknown" // the answer did not reach the server, or the server's did not come back
)

// A Handler does the work of a job. ctx is cancelled when the lease is lost, the job is cancelled, or the worker must end
// at once. What it returns is the result of the job; nil: none.
type Handler func(ctx context.Context, job *Job) (any, error)

// WorkerOptions say how a worker works.
type WorkerOptions struct {
	Connect     func(context.Context) (Conn, error) // how to connect to the primary; required
	Concurrency int                                 // how many jobs run at a time; default 1
	Tx          bool                                // the handler and the ack are one transaction, in job.Tx
	Wait        time.Duration                       // how long a claim waits for a job; default 5 s
	Heartbeat   time.Duration                       // time between two extensions of leases, at most a third of a lease; default 5 s
	LeaseTime   time.Duration                       // default: the lease_time of the queue
	StopTimeout time.Duration                       // time after which a stop aborts the handlers that still run; default 30 s
	Signals     []os.Signal                         // signals that stop the worker
	Pool        int                                 // connections that acknowledge jobs and run transactions; default: Concurrency in Tx mode, else 1
	Worker      string                              // the label of the worker in views; default: application_name
	Before      func(*Job)
	After       func(job *Job, outcome string, err error)
	Error       func(error) // an error that is not of a job, such as a lost connection; the worker goes on
	Log         func(level, message string)
}

// A Worker runs the jobs of one or more queues until it is stopped. One connection claims jobs and extends their leases;
// a pool of others acknowledges them, and has the transactions of handlers.
type Worker struct {
	queues  []string
	handler Handler
	options WorkerOptions
	control Conn
	pool    chan Conn
	changed chan struct{}
	stopped chan struct{}
	once    sync.Once
	timeout time.Duration

	mutex    sync.Mutex
	running  map[int64]*Job
	aborting bool
	acks     []*pendingAck
	ackMutex sync.Mutex
	beat     time.Time
	interval time.Duration
}

type pendingAck struct {
	job         *Job
	done, acked bool
	err         error
}

// NewWorker returns a worker, which Run starts.
func NewWorker(queues []string, handler Handler, o WorkerOptions) *Worker {
	setDefault := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	setDefault(&o.Wait, 5*time.Second)
	setDefault(&o.Heartbeat, 5*time.Second)
	setDefault(&o.StopTimeout, 30*time.Second)
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Pool == 0 {
		o.Pool = 1
		if o.Tx {
			o.Pool = o.Concurrency
		}
	}
	if o.Log == nil {
		o.Log = func(level, message string) {
			if level == "error" {
				log.Printf("pgq_ext: %s", message)
			}
		}
	}
	w := &Worker{queues: queues, handler: handler, options: o, pool: make(chan Conn, o.Pool), changed: make(chan struct{}, 1),
		stopped: make(chan struct{}), running: map[int64]*Job{}, interval: o.Heartbeat}
	for i := 0; i < o.Pool; i++ {
		w.pool <- nil
	}
	return w
}

// Stop claims no more jobs; Run returns when those in work have ended. After the timeout (0: the option StopTimeout) the
// contexts of the handlers that still run are cancelled, and jobs whose handlers then return an error are released. More
// calls change nothing.
func (w *Worker) Stop(timeout time.Duration) {
	w.once.Do(func() {
		w.timeout = timeout
		if timeout == 0 {
			w.timeout = w.options.StopTimeout
		}
		close(w.stopped)
	})
}

func (w *Worker) stopping() bool {
	select {
	case <-w.stopped:
		return true
	default:
		return false
	}
}

// Run runs the worker until Stop is called, ctx is done, or a signal comes. It returns an error if there is no primary or no
// such queue at the start.
func (w *Worker) Run(ctx context.Context) (err error) {
	if w.control, err = w.options.Connect(ctx); err != nil {
		return err
	}
	jobs, err := w.claim(w.options.Concurrency, 0)
	if err != nil {
		w.drop()
		return err
	}
	signals := make(chan os.Signal, 1)
	if len(w.options.Signals) > 0 {
		signal.Notify(signals, w.options.Signals...)
		defer signal.Stop(signals)
	}
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		case <-w.stopped:
		}
		w.Stop(0)
		time.Sleep(w.timeout)
		w.abortAll()
	}()
	w.take(jobs)
	for tries := 0; !w.stopping() || w.count() > 0; {
		if err := w.round(); err != nil {
			w.report(err)
			w.drop()
			w.pause(backoff(tries))
			tries++
			continue
		}
		tries = 0
	}
	w.drop()
	for i := 0; i < w.options.Pool; i++ {
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

// ---- claims and heartbeats ----

func (w *Worker) count() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.running)
}

// round extends the leases if it is time; then it claims jobs for free hands, or waits for a hand.
func (w *Worker) round() (err error) {
	if w.control == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if w.control, err = w.options.Connect(ctx); err != nil {
			return err
		}
	}
	busy := w.count()
	left := time.Duration(math.MaxInt64)
	if busy > 0 {
		if left = time.Until(w.beat); left <= 0 {
			if err := w.extend(); err != nil {
				return err
			}
			left = w.interval
		}
	}
	free := w.options.Concurrency - busy
	if w.stopping() || free <= 0 {
		w.pause(min(left, time.Second))
		return nil
	}
	jobs, err := w.claim(free, min(left, w.options.Wait))
	w.take(jobs)
	return err
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func (w *Worker) claim(most int, wait time.Duration) ([]*Job, error) {
	return claim(context.Background(), w.control, w.queues, most, wait, w.options.LeaseTime, w.options.Worker)
}

func (w *Worker) take(jobs []*Job) {
	for _, job := range jobs {
		w.interval = min(w.options.Heartbeat, time.Duration(job.seconds/3*float64(time.Second)))
		w.mutex.Lock()
		if len(w.running) == 0 {
			w.beat = time.Now().Add(w.interval)
		}
		w.running[job.ID] = job
		w.mutex.Unlock()
		var ctx context.Context
		ctx, job.cancel = context.WithCancel(context.Background())
		job.db = poolDB{w}
		go w.attempt(ctx, job)
	}
}

func (w *Worker) extend() error {
	var jobs []*Job
	for _, job := range w.jobs() {
		if !job.hasEnded() {
			jobs = append(jobs, job)
		}
	}
	held, err := extend(context.Background(), w.control, jobs)
	if err != nil {
		return err
	}
	w.beat = time.Now().Add(w.interval)
	for _, job := range jobs {
		if !held[job.ID] {
			job.abort(ErrStaleLease)
		}
	}
	return nil
}

func (w *Worker) jobs() (jobs []*Job) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, job := range w.running {
		jobs = append(jobs, job)
	}
	return jobs
}

func (w *Worker) abortAll() {
	w.mutex.Lock()
	w.aborting = true
	w.mutex.Unlock()
	for _, job := range w.jobs() {
		job.abort(ErrStopping)
	}
}

// pause waits that long, or until a job has ended or the worker is stopped.
func (w *Worker) pause(d time.Duration) {
	stopped := w.stopped
	if w.stopping() {
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
	w.options.Log("error", err.Error())
	w.hook(func() {
		if w.options.Error != nil {
			w.options.Error(err)
		}
	})
}

// hook calls a hook, which must not stop the worker.
func (w *Worker) hook(call func()) {
	defer func() {
		if problem := recover(); problem != nil {
			w.options.Log("error", fmt.Sprintf("hook: %v", problem))
		}
	}()
	call()
}

// ---- one job ----

// attempt runs the handler, and gives its answer to the server.
func (w *Worker) attempt(ctx context.Context, job *Job) {
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
	if w.stopping() {
		w.answer(job, Release(0))
		return
	}
	if w.options.Before != nil {
		w.hook(func() { w.options.Before(job) })
	}
	outcome := Acked
	err := w.finish(ctx, job)
	if err != nil {
		job.setEnded(true)
		outcome = w.answer(job, err)
	}
	if w.options.After != nil {
		w.hook(func() { w.options.After(job, outcome, err) })
	}
}

// finish runs the handler, and acknowledges the job.
func (w *Worker) finish(ctx context.Context, job *Job) error {
	if w.options.Tx {
		return w.use(func(conn Conn) error {
			job.Tx, job.db = conn, conn
			if err := inTransaction(conn, job, func() (any, error) { return w.handle(ctx, job) }); err != nil {
				job.setEnded(false)
				return err
			}
			return nil
		})
	}
	result, err := w.handle(ctx, job)
	if err != nil {
		return err
	}
	job.setEnded(true)
	if result != nil {
		return w.persist(func(conn Conn) error { return ack(context.Background(), conn, job, result) })
	}
	return w.acknowledge(job)
}

// handle calls the handler, and turns a panic into an error.
func (w *Worker) handle(ctx context.Context, job *Job) (result any, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	return w.handler(ctx, job)
}

func inTransaction(conn Conn, job *Job, body func() (any, error)) error {
	ctx := context.Background()
	if err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	result, err := body()
	if err == nil {
		err = ack(ctx, conn, job, result)
	}
	if err != nil {
		if problem := conn.Exec(ctx, "ROLLBACK"); problem != nil {
			conn.Close(ctx)
		}
		return err
	}
	job.setEnded(true) // a heartbeat after the commit would find no lease
	return typed(conn.Exec(ctx, "COMMIT"))
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
	w.options.Log("info", fmt.Sprintf("job %d failed: %v", job.ID, err))
	if errors.Is(err, ErrStaleLease) || errors.Is(job.Reason(), ErrStaleLease) {
		return Stale
	}
	w.mutex.Lock()
	aborting := w.aborting
	w.mutex.Unlock()
	v := verdictOf(err, aborting)
	problem := w.persist(func(conn Conn) (err error) { outcome, err = settle(context.Background(), conn, job, v); return err })
	if problem != nil {
		w.report(problem)
		return Unknown
	}
	return outcome
}

// use calls body with a connection of the pool. One that was lost is replaced when it is needed.
func (w *Worker) use(body func(Conn) error) (err error) {
	conn := <-w.pool
	defer func() { w.pool <- conn }()
	if conn == nil || conn.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		fresh, err := w.options.Connect(ctx)
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
		if err == nil || isOfServer(err) || tries == 11 || w.stopping() && tries > 0 {
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
	w := &Worker{handler: handler}
	for {
		jobs, err := claim(ctx, conn, queues, 1, 0, 0, "")
		if err != nil || len(jobs) == 0 {
			return outcomes, err
		}
		job := jobs[0]
		var inner context.Context
		inner, job.cancel = context.WithCancel(ctx)
		job.db = conn
		if tx {
			job.Tx = conn
			err = inTransaction(conn, job, func() (any, error) { return w.handle(inner, job) })
		} else if result, problem := w.handle(inner, job); problem != nil {
			err = problem
		} else {
			err = ack(ctx, conn, job, result)
		}
		job.cancel()
		outcome := Acked
		if errors.Is(err, ErrStaleLease) {
			outcome = Stale
		} else if err != nil {
			if outcome, err = settle(ctx, conn, job, verdictOf(err, false)); err != nil {
				return outcomes, err
			}
		}
		outcomes = append(outcomes, outcome)
	}
}
