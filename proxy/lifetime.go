package proxy

import (
	"context"
	"sync"
)

// lifetime is the lifetime of a connection. It ends at the latest with that of its listener or
// stream. Its context is created on first use, because most requests never wait.
type lifetime struct {
	parentCtx context.Context //nolint:containedctx // of the connection's whole life

	mu struct {
		sync.Mutex
		ctx    context.Context //nolint:containedctx // nil means that the context has not been created
		cancel context.CancelFunc
		ended  bool
	}
}

// context returns the context of the connection.
func (l *lifetime) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ctx == nil {
		l.mu.ctx, l.mu.cancel = context.WithCancel(l.parentCtx) //nolint:fatcontext // made once
		if l.mu.ended {
			l.mu.cancel()
		}
	}
	return l.mu.ctx
}

// end ends the lifetime. A second call has no effect.
func (l *lifetime) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ended = true
	if l.mu.cancel != nil {
		l.mu.cancel()
	}
}

// created reports whether the context has been created.
func (l *lifetime) created() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.ctx != nil
}
