package proxy

import (
	"context"
	"math"
	"sync/atomic"

	"shardway/internal/coarsetime"
	"shardway/proxy/listener"
)

// lifecycle is the state of a Server from the first listener to the end of its shutdown. Any
// goroutine may use it.
type lifecycle struct {
	clock *coarsetime.Clock

	listeners listener.Set // while it is stopping, the node leaves
	draining  atomic.Bool  // see Server.SetDraining
	// drainDeadline is when Shutdown or DrainClients stops waiting for the remaining connections, by
	// the clock. It is set before listeners is stopped.
	drainDeadline atomic.Int64
	// abortCtx ends when all connections must be aborted. That includes connections in a TLS
	// handshake and connections that are accepted later.
	abortCtx context.Context //nolint:containedctx // of the Server's whole life
	abort    context.CancelFunc
}

// init sets the clock of the deadline. It must be called before all other methods.
func (lifecycle *lifecycle) init(clock *coarsetime.Clock) {
	lifecycle.clock = clock
	lifecycle.abortCtx, lifecycle.abort = context.WithCancel(context.Background())
}

// isStopping reports whether the node is leaving: it accepts no further connections.
func (lifecycle *lifecycle) isStopping() bool { return lifecycle.listeners.IsStopping() }

// isDraining reports whether connections of clients must close after their present response.
func (lifecycle *lifecycle) isDraining() bool { return lifecycle.draining.Load() }

// isAborted reports whether all connections must be aborted.
func (lifecycle *lifecycle) isAborted() bool { return lifecycle.abortCtx.Err() != nil }

// stopAccepting turns draining on, and stops the listeners. The deadline of ctx is the deadline of the
// drain.
func (lifecycle *lifecycle) stopAccepting(ctx context.Context) {
	lifecycle.draining.Store(true)
	deadline := int64(math.MaxInt64)
	if ctxDeadline, ok := ctx.Deadline(); ok {
		deadline = int64(lifecycle.clock.At(ctxDeadline))
	}
	lifecycle.drainDeadline.Store(deadline)
	lifecycle.listeners.Stop()
}

// awaitDrained waits until the listeners are closed, and then until the channel of connsClosed is
// closed. It returns the error of ctx if ctx ends first.
func (lifecycle *lifecycle) awaitDrained(ctx context.Context, connsClosed func() <-chan struct{}) error {
	if err := awaitClosed(ctx, lifecycle.listeners.Closed()); err != nil {
		return err
	}
	return awaitClosed(ctx, connsClosed())
}

// awaitClosed waits until a channel is closed. It returns the error of ctx if ctx ends first.
func awaitClosed(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
