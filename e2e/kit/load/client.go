//go:build linux

package load

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"shardway/e2e/kit/history"
)

// patience is how long a client waits before it tries its targets again, when
// nobody listened at any of them.
const patience = 20 * time.Millisecond

// Client sends requests, one answer each. Any number of goroutines may use it.
type Client struct {
	dial func(ctx context.Context, addr string) (net.Conn, error)

	mu      sync.Mutex
	targets []string
	next    int
	free    map[string][]*conn
	closed  bool
	noRetry []string
	// spared has when a target was last taken off noRetry, by history.Now.
	spared map[string]int64
	// orphan counts bytes that came on idle connections.
	orphan int
}

// NewClient makes a client of these targets ("host:port"), asked in turn. A nil
// dial is plain TCP.
func NewClient(targets []string, dial func(ctx context.Context, addr string) (net.Conn, error)) *Client {
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	return &Client{dial: dial, targets: targets, free: make(map[string][]*conn), spared: make(map[string]int64)}
}

// SetTargets replaces the targets. Requests under way are not disturbed.
func (c *Client) SetTargets(targets []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets = targets
}

// SetNoRetry names the targets whose processes may die: from now on an unsafe
// request that was sent to one of them goes nowhere else when its connection
// breaks, for it may have run. It replaces the last call's, but for what was sent
// before: how its connection ended may be seen late.
func (c *Client) SetNoRetry(targets ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, target := range c.noRetry {
		if !slices.Contains(targets, target) {
			c.spared[target] = history.Now()
		}
	}
	c.noRetry = targets
}

// again tells whether a request whose idle connection turned out closed may go to
// the next target.
func (c *Client) again(t *history.Attempt, a *history.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	spared, died := c.spared[t.Target]
	return a.Safe() || !slices.Contains(c.noRetry, t.Target) && (!died || spared < t.Sent)
}

// Close closes the idle connections and keeps none from now on.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conns := range c.free {
		for _, k := range conns {
			_ = k.Close()
		}
	}
	clear(c.free)
}

// Do sends r to the next targets until one answers, and returns what came.
func (c *Client) Do(ctx context.Context, r Request) history.Response {
	return c.send(ctx, r, "")
}

// DoAt sends r to one target only, and once only.
func (c *Client) DoAt(ctx context.Context, target string, r Request) history.Response {
	return c.send(ctx, r, target)
}

func (c *Client) send(ctx context.Context, r Request, only string) history.Response {
	r = r.normal()
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	a := history.Response{ID: r.ID, Key: r.Key, Method: r.Method, Register: r.Header["App-Register"]}
	if a.Register != "" && !a.Safe() {
		a.Wrote = string(r.Body)
	}
	for round := 1; ; round++ {
		target, turn := c.target(only)
		if again := c.attempt(ctx, target, r, &a, only == ""); !again {
			return a
		}
		if round%turn == 0 && !wait(ctx, patience) {
			return a
		}
	}
}

// target is the next one to ask, and how many there are.
func (c *Client) target(only string) (target string, of int) {
	if only != "" {
		return only, 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return c.targets[c.next%len(c.targets)], len(c.targets)
}

// attempt tries one target. again tells that the request certainly got no
// answer there, so that a balancer would ask the next.
func (c *Client) attempt(ctx context.Context, target string, r Request, a *history.Response, failover bool) (again bool) {
	t := history.Attempt{Target: target, Sent: history.Now()}
	k, keep, err := c.ask(ctx, target, r, a)
	if k != nil {
		t.Reused = k.reused
		again = t.Reused && !k.got && closedByPeer(err) && c.again(&t, a)
		c.put(k, keep)
	} else {
		t.Refused = nobodyListens(err)
		again = t.Refused
	}
	t.Done = history.Now()
	if err != nil {
		t.Err = err.Error()
	}
	a.Attempts = append(a.Attempts, t)
	return again && failover && ctx.Err() == nil
}

// ask sends r over an idle connection that is still open, or a new one, and returns which.
// There is none if nobody could be dialed.
func (c *Client) ask(ctx context.Context, target string, r Request, a *history.Response) (k *conn, keep bool, err error) {
	deadline, _ := ctx.Deadline()
	for {
		if k, err = c.conn(ctx, target); err != nil {
			return nil, false, err
		}
		stop := context.AfterFunc(ctx, func() { _ = k.Close() })
		keep, err = k.exchange(r, a, deadline)
		stop()
		if !errors.Is(err, errStale) {
			return k, keep, err
		}
		_ = k.Close()
		c.mu.Lock()
		c.orphan += k.unasked
		c.mu.Unlock()
	}
}

// nobodyListens tells how a dial fails at a listener that is closed, or is closed at
// this moment: then the kernel resets what it has not handed out yet, which may be
// before the dial has returned. Nothing was sent.
func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// closedByPeer tells an idle connection's end from a timeout.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// conn takes an idle connection, or a new one.
func (c *Client) conn(ctx context.Context, target string) (*conn, error) {
	if k := c.take(target); k != nil {
		k.reused = true
		return k, nil
	}
	n, err := c.dial(ctx, target)
	if err != nil {
		return nil, err
	}
	return newConn(n, target), nil
}

func (c *Client) take(target string) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conns := c.free[target]
	if len(conns) == 0 {
		return nil
	}
	k := conns[len(conns)-1]
	c.free[target] = conns[:len(conns)-1]
	return k
}

func (c *Client) put(k *conn, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !keep || c.closed {
		_ = k.Close()
		return
	}
	c.free[k.target] = append(c.free[k.target], k)
}

// Unasked is the number of bytes that came on idle connections: answers to
// nothing.
func (c *Client) Unasked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.orphan
}

// wait returns false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
