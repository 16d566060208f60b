package pgqext

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// A Job is a job that a worker has claimed. In Tx mode its methods are part of the transaction of the handler.
type Job struct {
	ID, Lease            int64
	Queue                string
	Payload, Headers     json.RawMessage
	GroupKey, LastError  *string
	Priority             int
	Attempt, MaxAttempts int // Attempt is 1 for the first try
	EnqueuedAt, RunAt    time.Time
	LastProgress         json.RawMessage // what an earlier attempt has passed to Progress
	Tx                   Conn            // the transaction, in Tx mode
	db                   DB
	seconds              float64 // length of the lease
	ctx                  context.Context
	cancel               context.CancelFunc
	mutex                sync.Mutex
	lost, ended          bool
}

// Lost says whether the context of the handler was cancelled because the lease is lost or the job is cancelled.
func (j *Job) Lost() bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.lost
}

func (j *Job) lose() {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if !j.ended {
		j.lost = true
		j.cancel()
	}
}

// setEnded says whether the handler has ended; then a heartbeat does not look at the job any more.
func (j *Job) setEnded(ended bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.ended = ended
}

func (j *Job) hasEnded() bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.ended
}

// handle calls the handler, and turns a panic into an error.
func (j *Job) handle(handler Handler) (result any, err error) {
	returned := false
	defer func() {
		if problem := recover(); !returned {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	result, err = handler(j.ctx, j)
	returned = true
	return result, err
}

// inTransaction runs the handler and the ack in one transaction.
func (j *Job) inTransaction(conn Conn, handler Handler) error {
	ctx := context.Background()
	j.Tx, j.db = conn, conn
	if err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	result, err := j.handle(handler)
	if err == nil {
		err = ack(ctx, conn, j, result)
	}
	j.setEnded(true) // a heartbeat after the commit would find no lease
	if err == nil {
		return typed(conn.Exec(ctx, "COMMIT"))
	}
	if problem := conn.Exec(ctx, "ROLLBACK"); problem != nil {
		conn.Close(ctx)
	}
	return err
}

// Progress stores how far the work has come; the next attempt finds it in LastProgress.
func (j *Job) Progress(ctx context.Context, value any) error {
	text, err := jsonOf(value)
	if err != nil {
		return err
	}
	return typed(j.db.Exec(ctx, "SELECT pgq_progress($1, $2, $3::text::jsonb)", j.ID, j.Lease, text))
}

// Checkpoint keeps the value of a step, once for all attempts, and returns the value that is kept. With nil it only reads.
func (j *Job) Checkpoint(ctx context.Context, step string, value any) (json.RawMessage, error) {
	var passed, kept *string
	if value != nil {
		text, err := jsonOf(value)
		if err != nil {
			return nil, err
		}
		passed = &text
	}
	err := one(ctx, j.db, "SELECT pgq_checkpoint($1, $2, $3, $4::text::jsonb)::text", []any{j.ID, j.Lease, step, passed}, &kept)
	if kept == nil {
		return nil, err
	}
	return json.RawMessage(*kept), err
}

// A Parent is a job after which another one was enqueued.
type Parent struct {
	ID         int64
	Ref, Error *string
	State      string
	Result     json.RawMessage
}

// Parents returns the jobs after which this one was enqueued.
func (j *Job) Parents(ctx context.Context) (parents []Parent, err error) {
	err = query(ctx, j.db, "SELECT job_id, ref, state, result::text, error FROM pgq_parents($1, $2)", []any{j.ID, j.Lease},
		func(row Row) error {
			var parent Parent
			var result *string
			err := row.Scan(&parent.ID, &parent.Ref, &parent.State, &result, &parent.Error)
			if result != nil {
				parent.Result = json.RawMessage(*result)
			}
			parents = append(parents, parent)
			return err
		})
	return parents, err
}

// AssertLease returns ErrStaleLease if the lease has ended. In a transaction, it keeps the lease until its end.
func (j *Job) AssertLease(ctx context.Context) error {
	return typed(j.db.Exec(ctx, "SELECT pgq_assert_lease($1, $2)", j.ID, j.Lease))
}

const claimed = `SELECT job_id, lease, queue, payload::text, coalesce(headers, '{}')::text, group_key, last_error, priority,
	attempt, max_attempts, enqueued_at, run_at, progress::text,
	extract(epoch FROM lease_expires_at - clock_timestamp())::float8 FROM `

func claim(ctx context.Context, db DB, queues []string, most int, wait time.Duration, leaseTime time.Duration, worker string) (jobs []*Job, err error) {
	function, from := "pgq_claim($1, ", any(queues[0])
	if len(queues) > 1 {
		function, from = "pgq_claim_any($1, ", queues
	}
	var lease, label *string
	if leaseTime != 0 {
		text := interval(leaseTime)
		lease = &text
	}
	if worker != "" {
		label = &worker
	}
	sql := claimed + function + "$2, wait => $3::text::interval, lease_time => $4::text::interval, worker => $5)"
	err = query(ctx, db, sql, []any{from, most, interval(wait), lease, label}, func(row Row) error {
		job := &Job{}
		var payload, headers string
		var progress *string
		err := row.Scan(&job.ID, &job.Lease, &job.Queue, &payload, &headers, &job.GroupKey, &job.LastError, &job.Priority,
			&job.Attempt, &job.MaxAttempts, &job.EnqueuedAt, &job.RunAt, &progress, &job.seconds)
		job.Payload, job.Headers = json.RawMessage(payload), json.RawMessage(headers)
		if progress != nil {
			job.LastProgress = json.RawMessage(*progress)
		}
		jobs = append(jobs, job)
		return err
	})
	return jobs, err
}

func ack(ctx context.Context, db DB, job *Job, result any) error {
	var passed *string
	if result != nil {
		text, err := jsonOf(result)
		if err != nil {
			return err
		}
		passed = &text
	}
	return typed(db.Exec(ctx, "SELECT pgq_ack($1, $2, result => $3::text::jsonb)", job.ID, job.Lease, passed))
}

func leasesOf(jobs []*Job) (ids, leases []int64) {
	for _, job := range jobs {
		ids, leases = append(ids, job.ID), append(leases, job.Lease)
	}
	return ids, leases
}

func setOf(ids []int64) map[int64]bool {
	set := map[int64]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// ackMany acknowledges jobs without results, and returns the ids of those whose lease was still good.
func ackMany(ctx context.Context, db DB, jobs []*Job) (map[int64]bool, error) {
	numbers, leases := leasesOf(jobs)
	acked, err := ids(ctx, db, "SELECT pgq_ack_many($1, $2)", numbers, leases)
	return setOf(acked), err
}

// extend extends leases, and returns the ids of the jobs that still have one.
func extend(ctx context.Context, db DB, jobs []*Job) (map[int64]bool, error) {
	numbers, leases := leasesOf(jobs)
	held, err := ids(ctx, db, `SELECT job_id FROM unnest($1::bigint[], $2::bigint[]) AS held(job_id, lease)
		WHERE pgq_extend(job_id, lease) IS NOT NULL`, numbers, leases)
	return setOf(held), err
}

// settle ends the attempt of a job whose handler has failed, and returns what became of the job.
func settle(ctx context.Context, db DB, job *Job, v *verdict) (outcome string, err error) {
	if v.release != nil {
		err = one(ctx, db, "SELECT CASE WHEN pgq_release($1, $2, $3::text::interval) THEN 'released' ELSE 'stale' END",
			[]any{job.ID, job.Lease, interval(*v.release)}, &outcome)
		return outcome, err
	}
	var retryIn *string
	if v.retryIn != nil {
		text := interval(*v.retryIn)
		retryIn = &text
	}
	err = one(ctx, db, "SELECT pgq_fail($1, $2, error => $3, retry => $4, retry_in => $5::text::interval)",
		[]any{job.ID, job.Lease, storable(v.Error()), v.retry, retryIn}, &outcome)
	return outcome, err
}
