package pgqext

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// A running is a worker at work. The goroutine of Run claims jobs and extends leases. Each job has a goroutine of
// its own.
type running struct {
	Worker
	stopping, aborting context.Context // done: no more jobs are claimed; the handlers must end
	stop, abort        context.CancelFunc
	control, pool      pool      // the connection for claims and heartbeats; the other connections
	beat               time.Time // when leases were extended
	every              float64   // seconds between two extensions
	held               sync.Map  // the jobs in work
	acks               chan *Job // jobs to acknowledge
	changed            chan bool // a job has ended, or the worker must stop
}

// patience is how long the worker waits for an answer before it takes the connection for lost.
const patience = 30 * time.Second

// backoff is how long to wait after that many failed tries: a random time, so that not all workers connect at once.
// (The numbers of math/rand are the same in each process before Go 1.20.)
func backoff(tries int) time.Duration {
	random := float64(time.Now().UnixNano()/100%1000) / 1000
	return seconds(math.Min(10, 0.5*math.Pow(2, float64(tries))) * (0.5 + random))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// guarded calls code of the user. A panic, also panic(nil), becomes an error, and so does the end of the goroutine by
// runtime.Goexit.
func guarded(call func()) error {
	done := make(chan error)
	go func() {
		err := errors.New("the function has ended without returning")
		defer func() {
			if problem := recover(); problem != nil {
				err = fmt.Errorf("panic: %v\n%s", problem, debug.Stack())
			}
			done <- err
		}()
		call()
		err = nil
	}()
	return <-done
}

// say logs by a method of the Logger.
func say(method func(string, ...any), message string, fields ...any) {
	_ = guarded(func() { method(message, fields...) })
}

// hook calls a hook, which must not stop the worker.
func (r *running) hook(call func()) {
	if err := guarded(call); err != nil {
		say(r.Log.Error, "a hook has failed", "error", err)
	}
}

// report passes an error that is not of a job to the Logger and to the hook.
func (r *running) report(err error) {
	say(r.Log.Error, "an error of the worker", "error", err)
	r.hook(func() { r.Error(err) })
}

// ---- connections ----

// A pool lends connections. As a DB, it makes each call with one of them.
type pool struct {
	*running
	conns chan Conn     // nil for those that must be made
	limit time.Duration // of a call
	tries int           // how often a call is made that may succeed later
}

// use calls body with a connection. One that was lost is replaced when it is needed.
func (p pool) use(ctx context.Context, body func(context.Context, Conn) error) (err error) {
	conn := <-p.conns
	defer func() { p.conns <- conn }()
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	if conn == nil || conn.IsClosed() {
		if conn, err = p.Connect(ctx); err != nil {
			conn = nil // not a nil pointer of the type of the adapter
			return err
		}
	}
	if err = body(ctx, conn); sqlState(err) == "25006" {
		_ = conn.Close(ctx) // behind a pooler, the server may have become a standby
	}
	return err
}

// persist calls use again while it may succeed later. After StopTimeout it tries only twice in all.
func (p *pool) persist(ctx context.Context, body func(context.Context, Conn) error) error {
	err := p.use(ctx, body)
	for tries := 1; isTransient(err) && tries < p.tries && (tries < 2 || p.aborting.Err() == nil); tries++ {
		time.Sleep(backoff(tries - 2))
		err = p.use(ctx, body)
	}
	return err
}

// Query makes a pool a DB.
func (p pool) Query(ctx context.Context, sql string, args ...any) (found []string, err error) {
	err = p.persist(ctx, func(ctx context.Context, conn Conn) (err error) {
		found, err = conn.Query(ctx, sql, args...)
		return err
	})
	return found, err
}

// close closes all connections, as soon as they are not in use.
func (p pool) close() {
	for i := 0; i < cap(p.conns); i++ {
		if conn := <-p.conns; conn != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = conn.Close(ctx)
			cancel()
		}
	}
}

// ---- claims and heartbeats ----

// work claims jobs and lets them run, until the worker must stop and no job is in work.
func (r *running) work() (err error) {
	go func() {
		<-r.stopping.Done()
		say(r.Log.Info, "stopping", "running", len(r.jobs()))
		r.wake()
		time.AfterFunc(r.StopTimeout, r.abort)
	}()
	// The first round does not wait, but finds out whether the worker can claim.
	for tries, wait := 0, time.Duration(0); r.stopping.Err() == nil || len(r.jobs()) > 0; tries++ {
		jobs, problem := r.round(wait)
		for _, job := range jobs {
			go r.attempt(job)
		}
		if problem == nil {
			tries, wait = -1, r.Wait
			continue
		}
		r.report(problem)
		if wait == 0 || final.MatchString(sqlState(problem)) {
			err = problem
			r.stop()
		}
		r.pause(backoff(tries))
	}
	say(r.Log.Info, "stopped")
	return err
}

// jobs returns the jobs in work.
func (r *running) jobs() (jobs []*Job) {
	r.held.Range(func(job, _ any) bool {
		jobs = append(jobs, job.(*Job))
		return true
	})
	return jobs
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

// round extends the leases if it is time. Then it claims as many jobs as can start at once, or waits until a job has
// ended.
func (r *running) round(wait time.Duration) ([]*Job, error) {
	jobs := r.jobs()
	if len(jobs) > 0 {
		if time.Since(r.beat).Seconds() >= r.every {
			if err := r.extend(jobs); err != nil {
				return nil, err
			}
			r.beat = time.Now()
		}
		wait = seconds(math.Max(0, math.Min(wait.Seconds(), r.every-time.Since(r.beat).Seconds())))
	}
	if r.stopping.Err() == nil && len(jobs) < r.Concurrency {
		return r.claim(r.Concurrency-len(jobs), wait)
	}
	r.pause(wait)
	return nil, nil
}

// claim claims at most that many jobs.
func (r *running) claim(most int, wait time.Duration) ([]*Job, error) {
	jobs, err := rows[*Job](context.Background(), pool{r, r.control.conns, wait + patience, 1}, `(SELECT *,
		extract(epoch FROM lease_expires_at - clock_timestamp()) AS seconds
		FROM pgq_claim_any($1, $2, wait => $3::text::interval, lease_time => nullif($4, '0 us')::interval,
			worker => nullif($5, '')))`, r.Queues, most, interval(wait), interval(r.LeaseTime), r.Label)
	for _, job := range jobs {
		r.every = math.Max(0.05, math.Min(r.every, job.LeaseSeconds/3))
		job.DB, job.acked = pool{r, r.pool.conns, math.MaxInt64, 1}, make(chan error, 1)
		job.ctx, job.cancel = context.WithCancel(r.aborting)
		job.expiry = time.AfterFunc(seconds(job.LeaseSeconds), job.lose)
		r.held.Store(job, true)
	}
	return jobs, err
}

// which returns for each job whether the expression of its id and lease is true.
func which(db DB, expression string, jobs []*Job) ([]bool, error) {
	var ids, leases []int64
	for _, job := range jobs {
		ids, leases = append(ids, job.ID), append(leases, job.Lease)
	}
	return rows[bool](context.Background(), db, "unnest(ARRAY(SELECT "+expression+
		" FROM unnest($1::bigint[], $2::bigint[]) AS job(id, lease)))", ids, leases)
}

// extend extends the leases, and cancels the contexts of the jobs that have none any more.
func (r *running) extend(jobs []*Job) error {
	kept, err := which(r.control, "pgq_extend(id, lease) IS NOT NULL", jobs)
	for i := range kept {
		if kept[i] {
			jobs[i].expiry.Reset(seconds(jobs[i].LeaseSeconds))
		} else {
			jobs[i].lose()
		}
	}
	return err
}

// ---- one job ----

// attempt runs the handler, and reports its result or its error to the server.
func (r *running) attempt(job *Job) {
	ctx := job.ctx
	if r.stopping.Err() != nil {
		job.Outcome = r.answer(job, Release(0))
	} else {
		r.hook(func() { ctx = r.Before(ctx, job) })
		if job.Outcome, job.Err = "acked", r.run(ctx, job); job.Err != nil {
			job.Outcome = r.answer(job, job.Err)
		}
		r.hook(func() { r.After(ctx, job) })
	}
	job.expiry.Stop()
	job.cancel()
	r.held.Delete(job)
	r.wake()
}

// run runs the handler, and acknowledges the job: in one transaction, or together with other jobs.
func (r *running) run(ctx context.Context, job *Job) error {
	if r.Tx {
		return r.inTransaction(ctx, job)
	}
	return r.handle(ctx, job, func(result any) error {
		if result != nil {
			return ack(context.Background(), r.pool, job, result)
		}
		r.acks <- job
		return <-job.acked
	})
}

// handle calls the handler, and then finish with its result.
func (r *running) handle(ctx context.Context, job *Job, finish func(result any) error) (err error) {
	problem := guarded(func() {
		var result any
		if result, err = r.Handler(ctx, job); err == nil {
			err = finish(result)
		}
		_ = sqlState(err) // panics now, not later, if err is a nil pointer of a type that has an Unwrap
	})
	if problem != nil {
		return problem
	}
	return err
}

func ack(ctx context.Context, db DB, job *Job, result any) error {
	return errorOf(rows[any](ctx, db, "pgq_ack($1, $2, result => nullif($3::text::jsonb, 'null'))",
		job.ID, job.Lease, asJSON{result}))
}

// inTransaction runs the handler and the ack in one transaction. If there is no connection, the handler has not begun,
// and another connection is tried.
func (r *running) inTransaction(ctx context.Context, job *Job) error {
	p := r.pool
	err := p.persist(context.Background(), func(_ context.Context, conn Conn) error {
		limited, cancel := context.WithCancel(context.Background()) // for all but the handler
		limit := time.AfterFunc(patience, cancel)
		defer limit.Stop()
		return typed(conn.InTx(limited, func(tx DB) error {
			limit.Stop()
			defer limit.Reset(patience)
			p.tries = 1 // since a handler that has begun is not repeated
			job.DB = tx // since progress by another connection would wait for this transaction
			return r.handle(ctx, job, func(result any) error {
				limit.Reset(patience)
				return ack(limited, tx, job, result)
			})
		}))
	})
	if err != nil && p.tries > 1 {
		r.report(err)
		return &verdict{error: err, release: true, in: interval(0)}
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
		acked, err := which(r.pool, "id = ANY(ARRAY(SELECT pgq_ack_many($1, $2)))", batch)
		for i, job := range batch {
			if err == nil && !acked[i] {
				job.acked <- ErrStaleLease
			} else {
				job.acked <- err
			}
		}
	}
}

// answer reports the error of a job, and returns what became of the job.
func (r *running) answer(job *Job, err error) string {
	v := &verdict{retry: true}
	_ = errors.As(err, &v)
	if r.aborting.Err() != nil && !v.release {
		v = &verdict{release: true, in: interval(0)}
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(fmt.Sprint(err), "?"), "\x00", "?") // as PostgreSQL can store it
	from := "unnest(ARRAY[CASE WHEN pgq_release($1, $2, $3::text::interval) THEN 'released' ELSE 'stale' END])"
	args := []any{job.ID, job.Lease, v.in}
	if !v.release {
		say(r.Log.Info, "job failed", "job", job.ID, "queue", job.Queue, "error", text)
		from = "pgq_fail($1, $2, retry_in => $3::text::interval, error => $4, retry => $5)"
		args = append(args, text, v.retry)
	}
	outcome, problem := first(rows[string](context.Background(), r.pool, from, args...))
	if problem != nil {
		r.report(problem)
		return "unknown"
	}
	return outcome
}
