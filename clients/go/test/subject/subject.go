// What the suite test/clients/library_go.pl runs: a worker whose handler does what the payload of the job says, or calls
// of a producer. The only argument is JSON. The program prints a line of JSON for each event.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	pgqext "pgq-ext.invalid/go"
	driver "pgq-ext.invalid/go/pgx4"
)

// connect also works behind a pooler in transaction mode.
var connect = driver.Connect("statement_cache_mode=describe")

type object = map[string]any

var mutex sync.Mutex

func say(event any) {
	mutex.Lock()
	defer mutex.Unlock()
	text, _ := json.Marshal(event)
	fmt.Println(string(text))
}

func short(text string) string {
	if len(text) > 1000 {
		return text[:1000]
	}
	return text
}

func seconds(value any) time.Duration {
	number, _ := value.(float64)
	return time.Duration(number * float64(time.Second))
}

func odd(kind string) error {
	texts := map[string]string{"nul": "odd \x00 text", "surrogate": "odd \xe9 text", "long": "odd text " + strings.Repeat("x", 1<<20),
		"unicode": "odd ä😀 text"}
	switch kind {
	case "not_an_error":
		panic(nil)
	case "unprintable":
		return (*os.PathError)(nil)
	case "exit":
		runtime.Goexit()
	}
	return errors.New(texts[kind])
}

func step(ctx context.Context, job *pgqext.Job, name string, value any) (err error) {
	switch name {
	case "insert":
		_, err = driver.Tx(job).Exec(ctx, "INSERT INTO effect (job_id, text) VALUES ($1, $2)", job.ID, value)
	case "gate":
		_, err = driver.Tx(job).Exec(ctx, "SELECT FROM gate")
	case "swallow":
		_, _ = driver.Tx(job).Exec(ctx, value.(string))
	case "sleep_at_first", "busy_at_first":
		if job.Attempt == 1 {
			return step(ctx, job, strings.TrimSuffix(name, "_at_first"), value)
		}
	case "busy_next":
		if job.Attempt > 1 {
			time.Sleep(seconds(value))
		}
	case "sleep":
		select {
		case <-time.After(seconds(value)):
		case <-ctx.Done():
			say(object{"event": "aborted", "job": job.ID, "why": map[bool]string{true: "StaleLease", false: "stop"}[job.Lost()]})
			return errors.New("the job was aborted")
		}
	case "busy":
		time.Sleep(seconds(value))
	case "fail":
		return errors.New(value.(string))
	case "fail_at_first":
		if job.Attempt == 1 {
			return errors.New(value.(string))
		}
	case "discard":
		return pgqext.Discard(errors.New(value.(string)))
	case "retry":
		return pgqext.RetryIn(seconds(value), errors.New("later"))
	case "release":
		return pgqext.Release(seconds(value))
	case "headers":
		say(object{"event": "headers", "value": job.Headers})
	case "publish":
		pair := value.([]any)
		_, err = pgqext.Publish(ctx, job.DB, pgqext.NewJob{Topic: pair[0].(string), Payload: pair[1]})
	case "odd":
		return odd(value.(string))
	case "progress":
		return job.Progress(ctx, value)
	case "show_progress":
		say(object{"event": "progress", "job": job.ID, "value": job.LastProgress})
	case "checkpoint":
		pair := value.([]any)
		kept, err := job.Checkpoint(ctx, pair[0].(string), pair[1])
		say(object{"event": "checkpoint", "value": kept})
		return err
	case "parents":
		parents, err := job.Parents(ctx)
		states := []any{}
		for _, parent := range parents {
			states = append(states, []any{parent.State, parent.Result})
		}
		say(object{"event": "parents", "states": states})
		return err
	case "enqueue":
		pair := value.([]any)
		_, err = pgqext.Enqueue(ctx, job.DB, pair[0].(string), pgqext.NewJob{Payload: pair[1]})
	}
	return err
}

var circular = object{}

func init() { circular["self"] = circular }

var oddResults = object{"circular": circular, "nul": "a \x00"}

func handle(ctx context.Context, job *pgqext.Job) (result any, err error) {
	var work struct{ Steps [][]any }
	if err := json.Unmarshal(job.Payload, &work); err != nil {
		return nil, err
	}
	for _, pair := range work.Steps {
		if pair[0] == "result" {
			result = pair[1]
		} else if pair[0] == "odd_result" {
			result = oddResults[pair[1].(string)]
		} else if err := step(ctx, job, pair[0].(string), pair[1]); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// newJob reads a job as the protocol writes it: in the form of pgq_enqueue_many, with times in seconds.
func newJob(from any) (job pgqext.NewJob) {
	given, _ := from.(object)
	for _, name := range []string{"delay", "unique_for", "expires_in"} {
		if value, is := given[name]; is {
			given[name] = seconds(value)
		}
	}
	if batch, is := given["batch"]; is {
		given["batch"] = idOf(batch)
	}
	text, _ := json.Marshal(given)
	// encoding/json ignores case, but not underscores
	if err := json.Unmarshal(key.ReplaceAllFunc(text, func(name []byte) []byte { return bytes.ReplaceAll(name, []byte("_"), nil) }), &job); err != nil {
		panic(err)
	}
	job.Payload, job.Headers = given["payload"], nil
	job.Headers, _ = given["headers"].(object)
	return job
}

var key = regexp.MustCompile(`"[a-z_]+":`)

func newJobs(from any) (jobs []pgqext.NewJob) {
	for _, one := range from.([]any) {
		jobs = append(jobs, newJob(one))
	}
	return jobs
}

func callback(from any) *pgqext.NewJob {
	if from == nil {
		return nil
	}
	job := newJob(from)
	return &job
}

func idOf(value any) (id int64) {
	fmt.Sscan(fmt.Sprint(value), &id)
	return id
}

var kinds = map[error]string{pgqext.ErrQueueFull: "QueueFullError", pgqext.ErrNotFound: "NotFoundError", pgqext.ErrDuplicate: "DuplicateError",
	pgqext.ErrUnroutable: "UnroutableError", pgqext.ErrStaleLease: "StaleLeaseError"}

// call makes one call of a producer, and returns its answer.
func call(ctx context.Context, db pgqext.Conn, name string, args []any) (any, error) {
	argument := func(i int) any {
		if i < len(args) {
			return args[i]
		}
		return nil
	}
	text, _ := argument(0).(string)
	more, _ := argument(1).(object)
	switch name {
	case "enqueue", "publish":
		job := newJob(argument(2))
		job.Payload = argument(1)
		if name == "enqueue" {
			return pgqext.Enqueue(ctx, db, text, job)
		}
		job.Topic = text
		published, err := pgqext.Publish(ctx, db, job)
		return publishedAs(published), err
	case "enqueue_many":
		return pgqext.EnqueueMany(ctx, db, text, newJobs(argument(1)))
	case "publish_many":
		published, err := pgqext.Publish(ctx, db, newJobs(argument(0))...)
		return publishedAs(published), err
	case "create_batch":
		given, _ := argument(0).(object)
		return pgqext.CreateBatch(ctx, db, pgqext.Batch{OnSuccess: callback(given["on_success"]), OnFailure: callback(given["on_failure"]),
			OnFinish: callback(given["on_finish"]), Metadata: given["metadata"]})
	case "close_batch":
		return nil, pgqext.CloseBatch(ctx, db, idOf(argument(0)))
	case "cancel":
		return pgqext.Cancel(ctx, db, idOf(argument(0)))
	case "result":
		result, err := pgqext.Result(ctx, db, idOf(argument(0)), seconds(argument(1)))
		if result.State == "" {
			return nil, err
		}
		return []any{result.State, result.Result}, err
	case "drain":
		w := pgqext.Worker{Connect: connect, Queues: []string{text}, Handler: handle, Tx: more["tx"] == true}
		jobs, err := w.Drain(ctx)
		outcomes := []string{}
		for _, job := range jobs {
			outcomes = append(outcomes, job.Outcome)
		}
		return outcomes, err
	}
	_, err := db.Query(ctx, text) // sql
	return nil, err
}

func publishedAs(jobs []pgqext.Published) [][]any {
	answer := [][]any{}
	for _, job := range jobs {
		answer = append(answer, []any{job.Queue, job.ID})
	}
	return answer
}

func produce(calls [][]any) {
	ctx := context.Background()
	db, err := connect(ctx)
	if err != nil {
		panic(err)
	}
	for _, c := range calls {
		answer, err := call(ctx, db, c[0].(string), c[1:])
		if err != nil {
			name, state := "Error", ""
			for kind, its := range kinds {
				if errors.Is(err, kind) {
					name = its
				}
			}
			var e *pgqext.Error
			if errors.As(err, &e) {
				state = e.Code
			}
			say(object{"error": name, "code": state})
		} else if c[0] != "sql" {
			say(object{"answer": answer})
		}
	}
	db.Close(ctx)
}

var hooksFail bool

func hookFails() {
	if hooksFail {
		panic("the hook fails")
	}
}

// A logger prints what the worker logs.
type logger struct{}

func (logger) Info(message string, fields ...any)  { logs("info", message, fields) }
func (logger) Error(message string, fields ...any) { logs("error", message, fields) }

func logs(level, message string, fields []any) {
	say(object{"event": "log", "level": level, "message": short(message + fmt.Sprint(fields...))})
	hookFails()
}

func main() {
	var config struct {
		Produce                      [][]any
		Queues                       []string
		Concurrency                  int
		Tx, HooksFail, Stopped       bool
		Heartbeat, Wait, StopTimeout *float64
	}
	text := strings.NewReplacer("stop_timeout", "stopTimeout", "hooks_fail", "hooksFail").Replace(os.Args[1])
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		panic(err)
	}
	if config.Produce != nil {
		produce(config.Produce)
		return
	}
	hooksFail = config.HooksFail
	w := pgqext.Worker{Connect: connect, Queues: config.Queues, Handler: handle, Concurrency: config.Concurrency, Tx: config.Tx,
		Before: func(ctx context.Context, job *pgqext.Job) context.Context {
			say(object{"event": "before", "job": job.ID, "headers": job.Headers})
			hookFails()
			return ctx
		},
		After: func(ctx context.Context, job *pgqext.Job) {
			// The scenarios expect this order of the keys.
			say(struct {
				Event   string `json:"event"`
				Job     int64  `json:"job"`
				Outcome string `json:"outcome"`
				Error   string `json:"error"`
			}{"after", job.ID, job.Outcome, short(fmt.Sprint(job.Err))})
			hookFails()
		},
		Error: func(err error) { say(object{"event": "error", "message": err.Error()}); hookFails() },
		Log:   logger{}}
	if config.Heartbeat != nil {
		w.Heartbeat = seconds(*config.Heartbeat)
	}
	if config.Wait != nil {
		w.Wait = seconds(*config.Wait)
	}
	if config.StopTimeout != nil {
		w.StopTimeout = seconds(*config.StopTimeout) - time.Microsecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if config.Stopped {
		stop()
	}
	say(object{"event": "started"})
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	say(object{"event": "ended"})
}
