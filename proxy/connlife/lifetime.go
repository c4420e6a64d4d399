package connlife

import (
	"context"
	"sync"
)

// Lifetime is the lifetime of a connection. It ends no later than that of its listener or stream. Its context is
// created on first use, because most requests never wait.
type Lifetime struct {
	// ParentCtx is the context of the listener or stream. It must be set first.
	ParentCtx context.Context //nolint:containedctx // of the connection's whole life

	mu struct {
		sync.Mutex
		ctx    context.Context //nolint:containedctx // nil means that the context has not been created
		cancel context.CancelFunc
		ended  bool
	}
}

// Context returns the context of the connection.
func (l *Lifetime) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ctx == nil {
		l.mu.ctx, l.mu.cancel = context.WithCancel(l.ParentCtx) //nolint:fatcontext // made once
		if l.mu.ended {
			l.mu.cancel()
		}
	}
	return l.mu.ctx
}

// End ends the lifetime. A second call has no effect.
func (l *Lifetime) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ended = true
	if l.mu.cancel != nil {
		l.mu.cancel()
	}
}

// HasContext reports whether Context was called, so that another goroutine may use the context.
func (l *Lifetime) HasContext() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.ctx != nil
}
