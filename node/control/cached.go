package control

import (
	"context"
	"time"
)

// CacheTime is how long a Cached result is used.
const CacheTime = time.Second

// Cached shares the result of a broadcast between callers. It calls the nodes at most once per CacheTime.
type Cached[T any] struct {
	lock       chan struct{} // cap 1, used as a lock: it is held while the nodes are called, and other callers wait for the same result
	finishedAt time.Time     // when the last call ended; zero means never
	lastResult T
}

// NewCached returns an empty cache.
func NewCached[T any]() *Cached[T] { return &Cached[T]{lock: make(chan struct{}, 1)} }

// Get returns the cached result, or calls f, for up to timeout. The end of ctx does not end f, because
// other callers wait for the same result. If ctx ends while another caller calls f, Get returns the zero
// value. The caller must not change the result.
func (c *Cached[T]) Get(ctx context.Context, timeout time.Duration, f func(context.Context) T) (result T) {
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		return result
	}
	if !c.finishedAt.IsZero() && time.Since(c.finishedAt) < CacheTime {
		return c.lastResult
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	c.lastResult = f(ctx)
	c.finishedAt = time.Now()
	return c.lastResult
}
