package wsession

import (
	"context"
	"sync"
)

// Exclusive ensures that at most one request or relay of each session uses the app at a time. The
// zero value is ready.
type Exclusive struct {
	mu   sync.Mutex
	uses map[[32]byte]*use // by session id
}

// use is the one request or relay of a session.
type use struct {
	cancel   func()
	released chan struct{} // closed when the request or relay no longer uses the app
}

// Acquire registers a request or relay of the session id as the only one that may use the app. It
// first cancels an earlier one: the ingress has given that one up, and this node has not noticed.
// cancel cancels the new one. The caller must call release when it no longer uses the app. ok is
// false if ctx ended before the earlier one was released.
func (e *Exclusive) Acquire(ctx context.Context, id [32]byte, cancel func()) (release func(), ok bool) {
	mine := &use{cancel: cancel, released: make(chan struct{})}
	for {
		e.mu.Lock()
		other := e.uses[id]
		if other == nil {
			if e.uses == nil {
				e.uses = make(map[[32]byte]*use)
			}
			e.uses[id] = mine
			e.mu.Unlock()
			return func() { e.release(id, mine) }, true
		}
		e.mu.Unlock()
		other.cancel()
		select {
		case <-other.released:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (e *Exclusive) release(id [32]byte, mine *use) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.uses, id)
	close(mine.released)
}

// CancelFunc returns the function that cancels the present user of a session, or nil if there is none.
func (e *Exclusive) CancelFunc(id [32]byte) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.uses[id]; x != nil {
		return x.cancel
	}
	return nil
}
