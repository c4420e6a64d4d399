package listener

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
)

// Lifecycle is the state of a server from the first listener to the end of its shutdown. Any
// goroutine may use it.
type Lifecycle struct {
	// Listeners are the open listeners. The node is leaving while they are stopping.
	Listeners Set
	// AbortCtx ends when all connections must be aborted. That includes connections in a TLS
	// handshake and connections that are accepted later.
	AbortCtx context.Context //nolint:containedctx // of the server's whole life
	// Abort ends AbortCtx.
	Abort context.CancelFunc

	clock    *coarsetime.Clock
	draining atomic.Bool
	// servesPeers is the result of ServesPeers.
	servesPeers atomic.Bool
	// drainDeadline is the result of DrainDeadline. It is set before Listeners is stopped.
	drainDeadline atomic.Int64
}

// Init sets the clock of the deadline. It must be called before all other methods.
func (lifecycle *Lifecycle) Init(clock *coarsetime.Clock) {
	lifecycle.clock = clock
	lifecycle.AbortCtx, lifecycle.Abort = context.WithCancel(context.Background()) //nolint:gosec // the server calls Abort
}

// IsStopping reports whether the node is leaving: it accepts no further connections.
func (lifecycle *Lifecycle) IsStopping() bool { return lifecycle.Listeners.IsStopping() }

// SetDraining turns draining on or off.
func (lifecycle *Lifecycle) SetDraining(on bool) { lifecycle.draining.Store(on) }

// IsDraining reports whether connections of clients must close after their current response.
func (lifecycle *Lifecycle) IsDraining() bool { return lifecycle.draining.Load() }

// SetServesPeers sets the result of ServesPeers. It must be called before StopAccepting.
func (lifecycle *Lifecycle) SetServesPeers(on bool) { lifecycle.servesPeers.Store(on) }

// ServesPeers reports whether forwarded requests of other nodes continue while the node is
// stopping.
func (lifecycle *Lifecycle) ServesPeers() bool { return lifecycle.servesPeers.Load() }

// IsAborted reports whether all connections must be aborted.
func (lifecycle *Lifecycle) IsAborted() bool { return lifecycle.AbortCtx.Err() != nil }

// StopAccepting turns draining on, and stops the listeners. The deadline of ctx is the deadline of the
// drain.
func (lifecycle *Lifecycle) StopAccepting(ctx context.Context) {
	lifecycle.draining.Store(true)
	deadline := int64(math.MaxInt64)
	if ctxDeadline, ok := ctx.Deadline(); ok {
		deadline = int64(lifecycle.clock.At(ctxDeadline))
	}
	lifecycle.drainDeadline.Store(deadline)
	lifecycle.Listeners.Stop()
}

// DrainDeadline returns when the drain stops waiting for the remaining connections, by the clock. It
// must be called after StopAccepting.
func (lifecycle *Lifecycle) DrainDeadline() time.Duration {
	return time.Duration(lifecycle.drainDeadline.Load())
}

// AwaitDrained waits until the listeners are closed, and then until the channel of connsClosed is
// closed. It returns the error of ctx if ctx ends first.
func (lifecycle *Lifecycle) AwaitDrained(ctx context.Context, connsClosed func() <-chan struct{}) error {
	if err := awaitClosed(ctx, lifecycle.Listeners.Closed()); err != nil {
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
