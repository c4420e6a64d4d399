// Package pollctx makes contexts that look for themselves whether they are over.
//
// Somebody ends a context, and that somebody is a goroutine like the one that asks: when
// a process goes on that was stopped, or whose machine was suspended, all of them are due
// at once, and who asks before it was told would begin what it may not begin any more.
// One of these asks the clock instead, at each Done and Err.
package pollctx

import "context"

// heedful is a context with a cancel of its own. Value is that of the one within, so the
// contexts that are derived from it end with it and cost no goroutine.
type heedful struct {
	context.Context
	over   func() bool
	cancel context.CancelFunc
}

// Context returns a context that ends with parent, by cancel, and as soon as somebody
// asks for its Done or Err when over says so, which any goroutine may ask. Whoever waits
// for a Done that it asked for before hears of it then, too. A context that is derived
// from it looks when it is made.
func Context(parent context.Context, over func() bool) (ctx context.Context, cancel context.CancelFunc) {
	within, cancel := context.WithCancel(parent)
	return &heedful{within, over, cancel}, cancel
}

// Done looks first.
func (c *heedful) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Err looks first.
func (c *heedful) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *heedful) look() {
	if c.Context.Err() == nil && c.over() {
		c.cancel()
	}
}
