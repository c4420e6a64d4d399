package hooks

import (
	"context"
	"errors"

	"shardway/ack/agent"
)

// maxErrorBytes is the maximum length of the error of a call, in bytes. The error is stored for each shard of the
// call, and appears in responses to clients, in logs and in tables.
const maxErrorBytes = 512

// Errors of calls that the node has ended. ErrAborted means that the call was aborted because it is no longer
// needed.
var (
	ErrAborted = errors.New("the call was aborted, because its result is no longer needed")
	ErrTimeout = errors.New("the app did not answer in time (--release-timeout, --acquire-timeout)")
)

// describeError returns the error of a call. If ctx has ended, it returns the error of ctx, because err is only a
// consequence.
func describeError(ctx context.Context, call *agent.HookCall, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = ErrTimeout
	case ctx.Err() != nil:
		err = ErrAborted
	}
	return newCallError(call, err)
}

// callError is the error of a call. It may contain text that the app has sent. Its text is a single line
// of at most maxErrorBytes bytes.
type callError struct {
	text string
	err  error
}

// newCallError returns a callError for err that names the hook.
func newCallError(call *agent.HookCall, err error) error {
	return &callError{truncate("hook "+call.Kind.String()+": "+err.Error(), maxErrorBytes), err}
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.err }
