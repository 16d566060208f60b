package pgqext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A raised is an error of a server.
type raised string

func (e raised) Error() string    { return "ERROR " + string(e) }
func (e raised) SQLState() string { return string(e) }

// A server answers as the functions of pgq_ext would. It hands out jobs once, and notes what becomes of them.
type server struct {
	mutex  sync.Mutex
	jobs   []string // to hand out
	ended  []string // outcome or error text of each job
	lost   bool     // all leases
	mute   bool     // leases cannot be extended
	broken int      // so many transactions cannot begin
}

// forEach returns the same answer for each id.
func forEach(ids any, answer bool) (answers []string) {
	for range ids.([]int64) {
		answers = append(answers, fmt.Sprint(answer))
	}
	return answers
}

func (s *server) connect(context.Context) (Conn, error) { return s, nil }
func (s *server) IsClosed() bool                        { return false }
func (s *server) Close(context.Context) error           { return nil }

func (s *server) InTx(ctx context.Context, body func(DB) error) error {
	s.mutex.Lock()
	s.broken--
	broken := s.broken >= 0
	s.mutex.Unlock()
	if broken {
		return errors.New("no connection")
	}
	return body(s)
}

func (s *server) Query(ctx context.Context, sql string, args ...any) ([]string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case strings.Contains(sql, "pgq_claim_any"):
		most := args[1].(int)
		if most > len(s.jobs) {
			most = len(s.jobs)
		}
		jobs := s.jobs[:most]
		s.jobs = s.jobs[most:]
		return jobs, nil
	case strings.Contains(sql, "pgq_extend"):
		if s.mute {
			return nil, errors.New("no connection")
		}
		return forEach(args[0], !s.lost), nil
	case strings.Contains(sql, "pgq_ack_many"):
		for range args[0].([]int64) {
			s.ended = append(s.ended, "acked")
		}
		return forEach(args[0], true), nil
	case strings.Contains(sql, "pgq_ack"):
		s.ended = append(s.ended, fmt.Sprint("acked ", args[2]))
	case strings.Contains(sql, "pgq_release"):
		s.ended = append(s.ended, "released")
		return []string{`"released"`}, nil
	case strings.Contains(sql, "pgq_fail"):
		s.ended = append(s.ended, fmt.Sprint(args[3]))
		return []string{`"retry"`}, nil
	case strings.Contains(sql, "no-such-queue"):
		return nil, raised("42704")
	}
	return []string{"null"}, nil
}

func serve(n int) *server {
	s := &server{}
	for i := 1; i <= n; i++ {
		s.jobs = append(s.jobs, fmt.Sprintf(`{"job_id": %d, "lease": %d, "queue": "q", "payload": {"n": %d},
			"group_key": null, "seconds": 30}`, i, 100+i, i))
	}
	return s
}

// drained returns what became of one job.
func drained(t *testing.T, w Worker, handler Handler) (*server, *Job) {
	t.Helper()
	s := serve(1)
	w.Connect, w.Queues, w.Handler = s.connect, []string{"q"}, handler
	jobs, err := w.Drain(context.Background())
	if err != nil || len(jobs) != 1 || len(s.ended) != 1 {
		t.Fatal(err, jobs, s.ended)
	}
	return s, jobs[0]
}

func TestHandlersThatDoNotReturn(t *testing.T) {
	for name, handler := range map[string]Handler{
		"without returning": func(context.Context, *Job) (any, error) { runtime.Goexit(); return nil, nil },
		"without":           func(context.Context, *Job) (any, error) { panic(nil) },
		"panic: oh":         func(context.Context, *Job) (any, error) { panic("oh") },
		"nil pointer":       func(context.Context, *Job) (any, error) { return nil, (*fs.PathError)(nil) },
		"unsupported type":  func(context.Context, *Job) (any, error) { return func() {}, nil },
	} {
		for _, tx := range []bool{false, true} {
			s, job := drained(t, Worker{Tx: tx}, handler)
			if job.Outcome != "retry" || !strings.Contains(s.ended[0], name) {
				t.Error(name, tx, job.Outcome, s.ended)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	s, job := drained(t, Worker{}, func(context.Context, *Job) (any, error) {
		return nil, fmt.Errorf("around: %w", Discard(errors.New("a \x00 b \xe9")))
	})
	if job.Outcome != "retry" || s.ended[0] != "around: a ? b ?" {
		t.Error(job.Outcome, s.ended)
	}
	_, job = drained(t, Worker{}, func(context.Context, *Job) (any, error) { return nil, Release(time.Second) })
	if job.Outcome != "released" {
		t.Error(job.Outcome)
	}
	for _, tx := range []bool{false, true} {
		s, _ = drained(t, Worker{Tx: tx}, func(context.Context, *Job) (any, error) { return 7, nil })
		if s.ended[0] != "acked 7" {
			t.Error(s.ended)
		}
	}
}

func TestHooksMayEndTheirGoroutine(t *testing.T) {
	exit := Worker{
		Before: func(ctx context.Context, job *Job) context.Context { runtime.Goexit(); return ctx },
		After:  func(context.Context, *Job) { panic(nil) }}
	if _, job := drained(t, exit, func(context.Context, *Job) (any, error) { return nil, nil }); job.Outcome != "acked" {
		t.Error(job.Outcome)
	}
}

func TestMissingConnectionsCostNoAttempt(t *testing.T) {
	s := serve(1)
	s.broken = 3
	jobs, err := Worker{Connect: s.connect, Queues: []string{"q"}, Tx: true,
		Handler: func(context.Context, *Job) (any, error) { return nil, nil }}.Drain(context.Background())
	if err != nil || jobs[0].Outcome != "acked" {
		t.Error(err, jobs[0].Err)
	}
}

func TestWorkers(t *testing.T) {
	for _, tx := range []bool{false, true} {
		s := serve(500)
		ctx, stop := context.WithCancel(context.Background())
		var mutex sync.Mutex
		n := 0
		w := Worker{Connect: s.connect, Queues: []string{"q"}, Concurrency: 8, Tx: tx,
			Handler: func(ctx context.Context, job *Job) (any, error) { return nil, job.Progress(ctx, job.Payload) },
			After: func(ctx context.Context, job *Job) {
				mutex.Lock()
				defer mutex.Unlock()
				if job.Lost() {
					t.Error("lost", job.ID)
				}
				if n++; n == 500 {
					stop()
				}
			}}
		if err := w.Run(ctx); err != nil || len(s.ended) != 500 {
			t.Error(err, len(s.ended))
		}
	}
}

func TestLostLeasesCancelContexts(t *testing.T) {
	ended := serve(1)
	ended.lost = true
	expired := serve(1)
	expired.mute = true
	expired.jobs[0] = strings.Replace(expired.jobs[0], "30}", "0.3}", 1)
	for _, s := range []*server{ended, expired} {
		ctx, stop := context.WithCancel(context.Background())
		w := Worker{Connect: s.connect, Queues: []string{"q"}}
		w.Handler = func(ctx context.Context, job *Job) (any, error) {
			defer stop()
			<-ctx.Done()
			if !job.Lost() {
				t.Error("not lost")
			}
			return nil, ctx.Err()
		}
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestAStopAbortsAndReleases(t *testing.T) {
	s := serve(1)
	ctx, stop := context.WithCancel(context.Background())
	w := Worker{Connect: s.connect, Queues: []string{"q"}, StopTimeout: -1}
	w.Handler = func(ctx context.Context, job *Job) (any, error) {
		stop()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := w.Run(ctx); err != nil || s.ended[0] != "released" {
		t.Error(err, s.ended)
	}
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("around: %w", typed(fmt.Errorf("driver: %w", raised("PQ002"))))
	var driver raised
	if !errors.Is(err, ErrQueueFull) || errors.Is(err, ErrStaleLease) || !errors.As(err, &driver) {
		t.Error(err)
	}
	for err, is := range map[error]bool{
		errors.New("x"): true, typed(raised("57P01")): true, typed(raised("PQ001")): false, nil: false} {
		if isTransient(err) != is {
			t.Error(err)
		}
	}
}

func TestNewJobs(t *testing.T) {
	text, err := json.Marshal(NewJob{
		Delay: 1500 * time.Millisecond, OnParentFailure: "run", After: []any{7, "a"}, Ref: "b",
		RunAt: time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC), MaxAttempts: 3, MustRoute: true})
	want := `{"after":[7,"a"],"delay":"1500000 us","max_attempts":3,"must_route":true,"on_parent_failure":"run",` +
		`"payload":null,"ref":"b","run_at":"2030-01-02T03:04:05.000006Z"}`
	if err != nil || string(text) != want {
		t.Error(err, string(text))
	}
}
