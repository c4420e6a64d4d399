// Package pollctx provides contexts that check for their own expiry when they are used.
//
// A normal context is cancelled by another goroutine. After a process pause or a machine
// suspend, that goroutine may run later than the one that checks the context, which would
// then start work that it is no longer allowed to do. The contexts of this package call a
// function, usually one that reads the clock, on every call of Done and Err.
//
// Package node uses them for hook calls, package embed for requests.
package pollctx

import "context"

// polledContext is a cancellable context with an expiry check. Value returns the values of
// the inner context, so derived contexts end with it and need no goroutine.
type polledContext struct {
	context.Context
	expired func() bool
	cancel  context.CancelFunc
}

// Context returns a context that ends with parent, when cancel is called, or when Done or Err is
// called and expired returns true. In the last case, goroutines already waiting on Done are also
// released. expired must be safe for concurrent use. Deriving a context from the result performs
// the check once.
func Context(parent context.Context, expired func() bool) (ctx context.Context, cancel context.CancelFunc) {
	inner, cancel := context.WithCancel(parent)
	return &polledContext{inner, expired, cancel}, cancel
}

// Done performs the expiry check first.
func (c *polledContext) Done() <-chan struct{} {
	c.poll()
	return c.Context.Done()
}

// Err performs the expiry check first.
func (c *polledContext) Err() error {
	c.poll()
	return c.Context.Err()
}

func (c *polledContext) poll() {
	if c.Context.Err() == nil && c.expired() {
		c.cancel()
	}
}
