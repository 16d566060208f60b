package pgqext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// A running is a worker at work. One goroutine, that of Run, claims jobs and extends leases; each job has one of its own.
type running struct {
	Worker
	stopping context.Context // done: claim no more jobs
	aborting context.Context // done: the handlers must end
	abort    context.CancelFunc
	control  pool // one connection, for claims and heartbeats
	pool     pool
	beat     time.Time // when leases were extended
	every    float64   // seconds between two extensions
	acks     chan *Job // jobs to acknowledge
	changed  chan bool // a job has ended, or the worker must stop
	mutex    sync.Mutex
	held     map[*Job]bool // the jobs in work
}

// patience is how long the worker waits for an answer before it takes the connection for lost.
const patience = 30 * time.Second

// own calls rows with a context of the worker, so that no context of a handler ends the call.
func own[T any](db DB, wait time.Duration, from string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait+patience)
	defer cancel()
	return rows[T](ctx, db, from, args...)
}

// backoff is how long to wait after that many failed tries: a random time, so that not all workers connect at once. (The numbers
// of math/rand are the same in each process before Go 1.20.)
func backoff(tries int) time.Duration {
	random := float64(time.Now().UnixNano()/100%1000) / 1000
	return seconds(math.Min(10, 0.5*math.Pow(2, float64(tries))) * (0.5 + random))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// guarded calls code of the user. A panic, also panic(nil), and the end of the goroutine by runtime.Goexit become errors.
func guarded(call func() error) error {
	err := errors.New("the function has ended without returning")
	done := make(chan bool)
	go func() {
		defer close(done)
		defer func() {
			if problem := recover(); problem != nil {
				err = fmt.Errorf("panic: %v\n%s", problem, debug.Stack())
			}
		}()
		err = call()
	}()
	<-done
	return err
}

// say logs by a method of the Logger.
func say(method func(string, ...any), message string, fields ...any) {
	_ = guarded(func() error { method(message, fields...); return nil })
}

// hook calls a hook, which must not stop the worker.
func (r *running) hook(call func()) {
	if err := guarded(func() error { call(); return nil }); err != nil {
		say(r.Log.Error, "a hook has failed", "error", err)
	}
}

func (r *running) report(err error) {
	say(r.Log.Error, "an error of the worker", "error", err)
	if r.Error != nil {
		r.hook(func() { r.Error(err) })
	}
}

// ---- connections ----

// A pool has its connections, or nil for those that must be made.
type pool chan Conn

// use calls body with a connection of the pool. One that was lost is replaced when it is needed.
func (r *running) use(p pool, body func(Conn) error) (err error) {
	conn := <-p
	defer func() { p <- conn }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if conn == nil || conn.IsClosed() {
		if conn, err = r.Connect(ctx); err != nil {
			conn = nil // not a nil pointer of the type of the adapter
			return err
		}
	}
	if err = body(conn); isTransient(err) {
		closeConn(conn)
	}
	return err
}

func closeConn(conn Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// persist repeats the call while it may succeed later, as long as the job may still be this worker's.
func (r *running) persist(call func(Conn) error) (err error) {
	for tries := 0; tries < 12 && (tries < 2 || r.aborting.Err() == nil); tries++ {
		if err = r.use(r.pool, call); !isTransient(err) {
			return err
		}
		time.Sleep(backoff(tries - 1))
	}
	return err
}

// A pooled is what the methods of a job use without Tx.
type pooled struct{ *running }

func (p pooled) Query(ctx context.Context, sql string, args ...any) (found []string, err error) {
	err = p.use(p.pool, func(conn Conn) (err error) { found, err = conn.Query(ctx, sql, args...); return typed(err) })
	return found, err
}

// close ends a worker without jobs in work.
func (r *running) close() {
	r.abort()
	close(r.acks)
	for _, p := range []pool{r.control, r.pool} {
		for i := 0; i < cap(p); i++ {
			if conn := <-p; conn != nil {
				closeConn(conn)
			}
		}
	}
}

// ---- claims and heartbeats ----

// jobs returns the jobs in work.
func (r *running) jobs() (jobs []*Job) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for job := range r.held {
		jobs = append(jobs, job)
	}
	return jobs
}

// whichOf passes the ids and leases of jobs to a function, and returns the set of numbers that it returns.
func whichOf(jobs []*Job, db DB, from string) (map[int64]bool, error) {
	var ids, leases []int64
	for _, job := range jobs {
		ids, leases = append(ids, job.ID), append(leases, job.Lease)
	}
	numbers, err := own[int64](db, 0, from, ids, leases)
	set := map[int64]bool{}
	for _, number := range numbers {
		set[number] = true
	}
	return set, err
}

// wake ends a pause.
func (r *running) wake() {
	select {
	case r.changed <- true:
	default:
	}
}

// pause waits that long, or until a job has ended or the worker must stop.
func (r *running) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.changed:
	}
}

// round extends the leases if it is time. Then it claims as many jobs as can start at once, or waits until a job has ended.
func (r *running) round(begin func(*Job)) error {
	jobs, wait := r.jobs(), r.Wait.Seconds()
	if len(jobs) > 0 {
		if time.Since(r.beat).Seconds() >= r.every {
			if err := r.extend(jobs); err != nil {
				return err
			}
		}
		wait = math.Max(0, math.Min(wait, r.every-time.Since(r.beat).Seconds()))
	}
	if r.stopping.Err() == nil && len(jobs) < r.Concurrency {
		return r.claim(r.Concurrency-len(jobs), seconds(wait), begin)
	}
	r.pause(seconds(wait))
	return nil
}

// claim claims jobs, and calls begin for each.
func (r *running) claim(most int, wait time.Duration, begin func(*Job)) error {
	return r.use(r.control, func(conn Conn) error {
		jobs, err := own[*Job](conn, wait, `(SELECT *, extract(epoch FROM lease_expires_at - clock_timestamp()) AS seconds
			FROM pgq_claim_any($1, $2, wait => $3::text::interval, lease_time => nullif($4, '0 us')::interval,
				worker => nullif($5, '')))`, r.Queues, most, interval(wait), interval(r.LeaseTime), r.Label)
		for _, job := range jobs {
			r.every = math.Max(0.05, math.Min(r.every, job.LeaseSeconds/3))
			job.expires = time.Now().Add(seconds(job.LeaseSeconds))
			job.DB, job.acked = pooled{r}, make(chan error, 1)
			job.ctx, job.cancel = context.WithCancel(r.aborting)
			r.mutex.Lock()
			r.held[job] = true
			r.mutex.Unlock()
			begin(job)
		}
		return err
	})
}

// extend extends the leases, and cancels the contexts of the jobs that have none any more.
func (r *running) extend(jobs []*Job) error {
	return r.use(r.control, func(conn Conn) error {
		kept, err := whichOf(jobs, conn, `unnest(ARRAY(SELECT n FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS held(job_id, lease, n)
			WHERE pgq_extend(job_id, lease) IS NOT NULL))`)
		if err != nil {
			return err
		}
		r.beat = time.Now()
		for i, job := range jobs { // several jobs may have leases of the same number
			if kept[int64(i+1)] {
				job.expires = r.beat.Add(seconds(job.LeaseSeconds))
			} else {
				job.lost.Store(true)
				job.cancel()
			}
		}
		return nil
	})
}

// cancelExpired cancels the contexts of the jobs whose leases have ended by the clock: without a connection, nobody extends them.
func (r *running) cancelExpired() {
	for _, job := range r.jobs() {
		if time.Now().After(job.expires) {
			job.lost.Store(true)
			job.cancel()
		}
	}
}

// ---- one job ----

// attempt runs the handler, and reports its result or its error to the server.
func (r *running) attempt(job *Job) {
	ctx := job.ctx
	if r.stopping.Err() != nil {
		job.Outcome = r.answer(job, Release(0))
	} else {
		if r.Before != nil {
			r.hook(func() { ctx = r.Before(ctx, job) })
		}
		if job.Outcome, job.Err = "acked", r.run(ctx, job); job.Err != nil {
			job.Outcome = r.answer(job, job.Err)
		}
		if r.After != nil {
			r.hook(func() { r.After(ctx, job) })
		}
	}
	job.cancel()
	r.mutex.Lock()
	delete(r.held, job)
	r.mutex.Unlock()
	r.wake()
}

// run runs the handler, and acknowledges the job: in one transaction, or together with other jobs.
func (r *running) run(ctx context.Context, job *Job) error {
	if r.Tx {
		return r.inTransaction(ctx, job)
	}
	result, err := r.handle(ctx, job)
	if err != nil {
		return err
	} else if result != nil {
		return r.persist(func(conn Conn) error { return ack(conn, job, result) })
	}
	r.acks <- job
	return <-job.acked
}

// handle calls the handler, and returns its result as JSON or nil.
func (r *running) handle(ctx context.Context, job *Job) (result any, err error) {
	err = guarded(func() error {
		value, err := r.Handler(ctx, job)
		_ = errors.As(err, new(*verdict)) // panics now, not later, if err is a nil pointer of a type that has an Unwrap
		if err != nil || value == nil {
			return err
		}
		text, err := json.Marshal(value)
		result = string(text)
		return err
	})
	return result, err
}

func ack(db DB, job *Job, result any) error {
	_, err := own[any](db, 0, "pgq_ack($1, $2, result => $3::text::jsonb)", job.ID, job.Lease, result)
	return err
}

// inTransaction runs the handler and the ack in one transaction. If there is no connection, the handler has not begun, and
// another connection is tried.
func (r *running) inTransaction(ctx context.Context, job *Job) (err error) {
	begun := false
	problem := r.persist(func(conn Conn) error {
		limited, cancel := context.WithCancel(context.Background()) // of BEGIN and COMMIT; the handler has its own context
		defer cancel()
		limit := time.AfterFunc(patience, cancel)
		problem := conn.InTx(limited, func(tx DB) error {
			limit.Stop()
			defer limit.Reset(patience)
			begun, job.DB = true, tx // progress and checkpoints of another connection would wait for this transaction
			var result any
			if result, err = r.handle(ctx, job); err == nil {
				err = ack(tx, job, result)
			}
			return err
		})
		if begun && err == nil {
			err = typed(problem)
		}
		if err != nil && errors.Is(guarded(func() error { return typed(err) }), &Error{Code: "25006"}) {
			closeConn(conn) // behind a pooler, the server may have become a standby
		}
		if begun {
			return nil
		}
		return typed(problem)
	})
	if problem != nil { // the handler has not begun
		r.report(problem)
		return &verdict{error: problem, release: true, in: interval(0)}
	}
	return err
}

// acknowledgeAll acknowledges, in one call, all jobs that have ended since the call before.
func (r *running) acknowledgeAll() {
	for job := range r.acks {
		batch := []*Job{job}
		for len(r.acks) > 0 {
			batch = append(batch, <-r.acks)
		}
		acked := map[int64]bool{}
		err := r.persist(func(conn Conn) (err error) { acked, err = whichOf(batch, conn, "pgq_ack_many($1, $2)"); return err })
		for _, job := range batch {
			if err == nil && !acked[job.ID] {
				job.acked <- ErrStaleLease
			} else {
				job.acked <- err
			}
		}
	}
}

// answer reports the error of a job, and returns what became of the job.
func (r *running) answer(job *Job, err error) (outcome string) {
	v, given := verdict{retry: true}, (*verdict)(nil)
	if errors.As(err, &given) {
		v = *given
	}
	if r.aborting.Err() != nil && !v.release {
		v.release, v.in = true, interval(0)
	}
	from := "replace(replace(pgq_release($1, $2, $3::text::interval)::text, 'true', 'released'), 'false', 'stale')"
	args := []any{job.ID, job.Lease, v.in}
	if !v.release {
		say(r.Log.Info, "job failed", "job", job.ID, "queue", job.Queue, "error", storable(err))
		from = "pgq_fail($1, $2, retry_in => $3::text::interval, error => $4, retry => $5)"
		args = append(args, storable(err), v.retry)
	}
	problem := r.persist(func(conn Conn) error {
		answers, err := own[string](conn, 0, from, args...)
		outcome = strings.Join(answers, "")
		return err
	})
	if problem != nil {
		r.report(problem)
		return "unknown"
	}
	return outcome
}
