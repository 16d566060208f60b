package pgqext

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of pgq_ext, to be compared by errors.Is.
var (
	ErrStaleLease = errors.New("stale lease") // PQ001: the lease has ended; another worker may have the job
	ErrQueueFull  = errors.New("queue full")  // PQ002: the queue has as many jobs as its option max_depth allows
	ErrUnroutable = errors.New("unroutable")  // PQ003: no queue is bound to the topic, and MustRoute was set
	ErrNotFound   = errors.New("not found")   // 42704: there is no such queue, job or batch
	ErrDuplicate  = errors.New("duplicate")   // 23505: a job has the unique key, and OnConflict is "error"
	errNoRow      = errors.New("no row returned")
)

var kinds = map[string]error{
	"PQ001": ErrStaleLease, "PQ002": ErrQueueFull, "PQ003": ErrUnroutable, "42704": ErrNotFound, "23505": ErrDuplicate,
}

// An Error is an error of a kind above, with the error of the driver.
type Error struct {
	Kind error
	Err  error
}

func (e *Error) Error() string        { return e.Err.Error() }
func (e *Error) Unwrap() error        { return e.Err }
func (e *Error) Is(target error) bool { return target == e.Kind }

// SQLState returns the SQLSTATE of an error of the server, or "".
func SQLState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// typed returns the error as an *Error, or as it is if its SQLSTATE has no kind.
func typed(err error) error {
	if kind := kinds[SQLState(err)]; kind != nil {
		return &Error{kind, err}
	}
	return err
}

// isOfServer returns whether the server has raised the error, so that the connection can be used again.
func isOfServer(err error) bool {
	state := SQLState(err)
	return state != "" && !strings.HasPrefix(state, "57P0") && !strings.HasPrefix(state, "08")
}

// storable returns the text as PostgreSQL can store it: valid UTF-8 without NUL.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// A verdict is an error by which a handler decides what becomes of its job.
type verdict struct {
	err     error
	release *time.Duration
	retryIn *time.Duration
	retry   bool
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// Discard makes a handler's error final: the job becomes a dead letter at once.
func Discard(err error) error { return &verdict{err: err} }

// RetryIn lets the attempt fail, and the next one begin after that time.
func RetryIn(d time.Duration, err error) error { return &verdict{err: err, retryIn: &d, retry: true} }

// Release gives the job back, to be handed out after that time. No attempt is counted.
func Release(d time.Duration) error {
	return &verdict{err: fmt.Errorf("released for %v", d), release: &d}
}

// verdictOf returns what becomes of a job whose handler has returned the error.
func verdictOf(err error, stopping bool) *verdict {
	var v *verdict
	if errors.As(err, &v) && (v.release != nil || !stopping) {
		return v
	}
	if stopping {
		var now time.Duration
		return &verdict{err: err, release: &now}
	}
	return &verdict{err: err, retry: true}
}
