package wsession

import (
	"context"
	"sync"
)

// ExclusiveUse ensures that at most one request or relay of each session uses the app at a time. The
// zero value is ready.
type ExclusiveUse struct {
	mu      sync.Mutex
	current map[[32]byte]*sessionUse // by session id
}

// sessionUse is the request or relay of a session that currently uses the app.
type sessionUse struct {
	cancel   func()
	released chan struct{} // closed when the request or relay no longer uses the app
}

// Acquire registers a request or relay of the session as the only one that may use the app. It
// first cancels the previous one, which the ingress must have given up without this node noticing,
// and waits for its release. cancel cancels the new one. The caller must call release when it no
// longer uses the app. ok is false if ctx ended before the previous one was released.
func (e *ExclusiveUse) Acquire(ctx context.Context, sessionID [32]byte, cancel func()) (release func(), ok bool) {
	acquired := &sessionUse{cancel: cancel, released: make(chan struct{})}
	for {
		e.mu.Lock()
		previous := e.current[sessionID]
		if previous == nil {
			if e.current == nil {
				e.current = make(map[[32]byte]*sessionUse)
			}
			e.current[sessionID] = acquired
			e.mu.Unlock()
			return func() { e.release(sessionID, acquired) }, true
		}
		e.mu.Unlock()
		previous.cancel()
		select {
		case <-previous.released:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// release ends the use by a session, and lets a waiting Acquire continue.
func (e *ExclusiveUse) release(sessionID [32]byte, acquired *sessionUse) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.current, sessionID)
	close(acquired.released)
}

// CancelFunc returns the function that cancels the current use by a session, or nil if the session
// does not use the app.
func (e *ExclusiveUse) CancelFunc(sessionID [32]byte) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if current := e.current[sessionID]; current != nil {
		return current.cancel
	}
	return nil
}
