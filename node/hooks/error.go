package hooks

import (
	"context"
	"errors"

	"shardway/ack/agent"
)

// maxError is how long the error of a call is at most, in bytes. It is kept for each
// shard of the call, and told to clients, in logs and tables.
const maxError = 512

// Errors of calls that were ended from this side.
var (
	ErrCut     = errors.New("the call was cut: what it was for is over")
	ErrTimeout = errors.New("the app did not answer in time (--release-timeout, --acquire-timeout)")
)

// named is the error of a call, which is that ctx has ended if it has.
func named(ctx context.Context, call *agent.HookCall, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = ErrTimeout
	case ctx.Err() != nil:
		err = ErrCut
	}
	return failure(call, err)
}

// callError is the error of a call. What the app has sent may stand in it: it is one
// line that is no longer than maxError.
type callError struct {
	text string
	err  error
}

func failure(call *agent.HookCall, err error) error {
	return &callError{clipped("hook "+call.Kind.String()+": "+err.Error(), maxError), err}
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.err }
