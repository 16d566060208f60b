// What the suite test/clients/library_go.pl runs: a worker whose handler does what the payload of the job says, or calls
// of a producer. The only argument is JSON. The program prints a line of JSON for each event.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"pgqext"
	"pgqext/pgx4"
)

type object = map[string]any

var mutex sync.Mutex

func say(event object) {
	mutex.Lock()
	defer mutex.Unlock()
	text, _ := json.Marshal(event)
	fmt.Println(string(text))
}

func seconds(value any) time.Duration {
	number, _ := value.(float64)
	return time.Duration(number * float64(time.Second))
}

func odd(kind string) error {
	texts := map[string]string{"nul": "odd \x00 text", "surrogate": "odd \xe9 text", "long": "odd text " + strings.Repeat("x", 1<<20)}
	if kind == "not_an_error" {
		panic(nil)
	}
	return errors.New(texts[kind])
}

func step(ctx context.Context, job *pgqext.Job, name string, value any) (err error) {
	switch name {
	case "insert":
		return job.Tx.Exec(ctx, "INSERT INTO effect (job_id, text) VALUES ($1, $2)", job.ID, value)
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
		_, err = pgqext.Enqueue(ctx, job.Tx, pair[0].(string), pair[1], pgqext.Options{})
	}
	return err
}

func handle(ctx context.Context, job *pgqext.Job) (result any, err error) {
	var work struct{ Steps [][]any }
	if err := json.Unmarshal(job.Payload, &work); err != nil {
		return nil, err
	}
	for _, pair := range work.Steps {
		if pair[0] == "result" {
			result = pair[1]
		} else if err := step(ctx, job, pair[0].(string), pair[1]); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func options(from any) (o pgqext.Options) {
	given, _ := from.(object)
	text, _ := json.Marshal(given)
	delay := given["delay"]
	delete(given, "delay")
	text, _ = json.Marshal(given)
	if err := json.Unmarshal(text, &o); err != nil {
		panic(err)
	}
	o.Delay = seconds(delay)
	return o
}

var kinds = map[error]string{pgqext.ErrQueueFull: "QueueFullError", pgqext.ErrNotFound: "NotFoundError", pgqext.ErrDuplicate: "DuplicateError"}

func produce(calls [][]any) {
	ctx := context.Background()
	db, err := pgx4.Connect("")(ctx)
	if err != nil {
		panic(err)
	}
	for _, call := range calls {
		var answer any
		switch call[0] {
		case "sql":
			if err := db.Exec(ctx, call[1].(string)); err != nil {
				panic(err)
			}
			continue
		case "enqueue":
			var more any
			if len(call) > 3 {
				more = call[3]
			}
			answer, err = pgqext.Enqueue(ctx, db, call[1].(string), call[2], options(more))
		case "enqueue_many":
			var jobs []pgqext.NewJob
			for _, job := range call[2].([]any) {
				o := job.(object)
				payload := o["payload"]
				delete(o, "payload")
				jobs = append(jobs, pgqext.NewJob{Payload: payload, Options: options(o)})
			}
			answer, err = pgqext.EnqueueMany(ctx, db, call[1].(string), jobs)
		case "cancel":
			var id int64
			fmt.Sscan(call[1].(string), &id)
			answer, err = pgqext.Cancel(ctx, db, id)
		case "drain":
			outcomes := []string{}
			outcomes, err = pgqext.Drain(ctx, db, []string{call[1].(string)}, handle, call[2].(object)["tx"] == true)
			answer = append([]string{}, outcomes...)
		}
		if err != nil {
			name := "Error"
			for kind, its := range kinds {
				if errors.Is(err, kind) {
					name = its
				}
			}
			say(object{"error": name, "code": pgqext.SQLState(err)})
		} else {
			say(object{"answer": answer})
		}
	}
	db.Close(ctx)
}

func main() {
	var config struct {
		Produce                      [][]any
		Queues                       []string
		Concurrency                  int
		Tx, HooksFail                bool
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
	w := pgqext.Worker{Connect: pgx4.Connect(""), Queues: config.Queues, Handler: handle, Concurrency: config.Concurrency, Tx: config.Tx,
		Before: func(job *pgqext.Job) {
			say(object{"event": "before", "job": job.ID})
			if config.HooksFail {
				panic("the hook fails")
			}
		},
		After: func(job *pgqext.Job, outcome string, err error) {
			say(object{"event": "after", "job": job.ID, "outcome": outcome})
		},
		Error: func(err error) { say(object{"event": "error", "message": err.Error()}) },
		Log:   func(level, message string) { say(object{"event": "log", "level": level, "message": message}) }}
	if config.Heartbeat != nil {
		w.Heartbeat = seconds(*config.Heartbeat)
	}
	if config.StopTimeout != nil {
		w.StopTimeout = seconds(*config.StopTimeout) + time.Microsecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	say(object{"event": "started"})
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	say(object{"event": "ended"})
}
