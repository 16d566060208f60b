package pgqext

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// An Error is an error of the server. Err is the error of the driver, which has the detail and the hint.
// errors.Is(err, &Error{Code: "40001"}) compares the SQLSTATE.
type Error struct {
	Code string // SQLSTATE
	Err  error
}

// Errors of pgq_ext, for errors.Is.
var (
	ErrStaleLease = &Error{"PQ001", errors.New("the lease is stale")} // another worker may have the job
	ErrQueueFull  = &Error{"PQ002", errors.New("the queue is full")}  // it has as many jobs as max_depth allows
	ErrUnroutable = &Error{"PQ003", errors.New("no queue is bound")}  // to the topic, and MustRoute was set
	ErrNotFound   = &Error{"42704", errors.New("not found")}          // there is no such queue, job or batch
	ErrDuplicate  = &Error{"23505", errors.New("duplicate job")}      // a job has the unique key, and OnConflict is "error"
)

// Error returns the message of the driver.
func (e *Error) Error() string { return fmt.Sprint(e.Err) }

// Unwrap returns the error of the driver.
func (e *Error) Unwrap() error { return e.Err }

// Is returns whether target is an *Error with the same SQLSTATE.
func (e *Error) Is(target error) bool {
	other, is := target.(*Error)
	return is && other.Code == e.Code
}

// typed returns an error of the server as an *Error, and another error as it is.
func typed(err error) error {
	var raised interface{ SQLState() string }
	if errors.As(err, &raised) {
		return &Error{raised.SQLState(), err}
	}
	return err
}

var (
	transient = regexp.MustCompile("^(08|25006|25P0[34]|40|53|55P03|57|58)") // no connection, a standby, a conflict, a timeout, a shortage
	final     = regexp.MustCompile("^(42|3F)")                               // no right, no such thing
)

// isTransient returns whether the same call may succeed later, with another connection.
func isTransient(err error) bool {
	var e *Error
	return err != nil && (!errors.As(err, &e) || transient.MatchString(e.Code))
}

// isFinal returns whether each further claim would fail, too.
func isFinal(err error) bool {
	var e *Error
	return errors.As(err, &e) && final.MatchString(e.Code)
}

// storable returns the text of an error as PostgreSQL can store it: valid UTF-8 without NUL.
func storable(err error) string {
	return strings.ReplaceAll(strings.ToValidUTF8(fmt.Sprint(err), "?"), "\x00", "?")
}

// A verdict is an error by which a handler decides what becomes of its job.
type verdict struct {
	error
	release, retry bool
	in             any // an interval; nil: the backoff of the queue
}

func (v *verdict) Unwrap() error { return v.error }

// Discard makes a handler's error final: the job becomes a dead letter at once.
func Discard(err error) error { return &verdict{error: err} }

// RetryIn lets the attempt fail, and the next one begin after that time.
func RetryIn(d time.Duration, err error) error {
	return &verdict{error: err, retry: true, in: interval(d)}
}

// Release gives the job back, to be handed out after that time. No attempt is counted.
func Release(d time.Duration) error {
	return &verdict{error: fmt.Errorf("released for %v", d), release: true, in: interval(d)}
}
