package hooks

import (
	"context"
	"errors"
	"fmt"

	"shardway/ack"
)

// Errors of calls that were ended from this side.
var (
	ErrCut     = errors.New("the call was cut: what it was for is over")
	ErrTimeout = errors.New("the app did not answer in time (--release-timeout, --acquire-timeout)")
)

// named is the error of a call, which is that ctx has ended if it has.
func named(ctx context.Context, call *ack.HookCall, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = ErrTimeout
	case ctx.Err() != nil:
		err = ErrCut
	}
	return fmt.Errorf("hook %s: %w", call.Kind, err)
}
