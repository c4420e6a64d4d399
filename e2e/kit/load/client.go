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

// retryDelay is how long a client waits before it tries its targets again, after no
// process listened at any of them.
const retryDelay = 20 * time.Millisecond

// Client sends requests. Any number of goroutines may use it.
type Client struct {
	dial func(ctx context.Context, addr string) (net.Conn, error)

	mu         sync.Mutex
	targets    []string
	nextTarget int
	idle       map[string][]*clientConn
	closed     bool
	noRetry    []string
	// removedAt is when a target was last removed from noRetry, by history.Now.
	removedAt map[string]int64
	// unsolicited is the number of bytes that arrived on idle connections.
	unsolicited int
}

// NewClient returns a client of these targets ("host:port"), which it uses in turn. A nil
// dial means plain TCP.
func NewClient(targets []string, dial func(ctx context.Context, addr string) (net.Conn, error)) *Client {
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	return &Client{dial: dial, targets: targets, idle: make(map[string][]*clientConn), removedAt: make(map[string]int64)}
}

// SetTargets replaces the targets. It does not affect requests in flight.
func (c *Client) SetTargets(targets []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets = targets
}

// SetNoRetry sets the targets whose processes may die. From now on, an unsafe request to
// one of them is not retried when its connection breaks, since it may have run. The list
// of the previous call stays in force for requests that were sent before: the end of
// their connections may be detected late.
func (c *Client) SetNoRetry(targets ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, target := range c.noRetry {
		if !slices.Contains(targets, target) {
			c.removedAt[target] = history.Now()
		}
	}
	c.noRetry = targets
}

// mayRetry reports whether a request on an idle connection that was found closed may be
// sent to the next target.
func (c *Client) mayRetry(attempt *history.Attempt, resp *history.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	removed, ok := c.removedAt[attempt.Target]
	return resp.Safe() || !slices.Contains(c.noRetry, attempt.Target) && (!ok || removed < attempt.Sent)
}

// Close closes the idle connections, and keeps none from now on.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conns := range c.idle {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	clear(c.idle)
}

// Do sends r to successive targets until one responds, and returns the result.
func (c *Client) Do(ctx context.Context, req Request) history.Response {
	return c.send(ctx, req, "")
}

// DoAt sends r to one target once.
func (c *Client) DoAt(ctx context.Context, target string, req Request) history.Response {
	return c.send(ctx, req, target)
}

func (c *Client) send(ctx context.Context, req Request, onlyTarget string) history.Response {
	req = req.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	resp := history.Response{ID: req.ID, Key: req.Key, Method: req.Method, Register: req.Header["App-Register"]}
	if resp.Register != "" && !resp.Safe() {
		resp.Wrote = string(req.Body)
	}
	for round := 1; ; round++ {
		target, targetCount := c.takeTarget(onlyTarget)
		if retry := c.tryTarget(ctx, target, req, &resp, onlyTarget == ""); !retry {
			return resp
		}
		if round%targetCount == 0 && !wait(ctx, retryDelay) {
			return resp
		}
	}
}

// takeTarget returns the next target and the number of targets.
func (c *Client) takeTarget(onlyTarget string) (target string, count int) {
	if onlyTarget != "" {
		return onlyTarget, 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextTarget++
	return c.targets[c.nextTarget%len(c.targets)], len(c.targets)
}

// tryTarget tries one target. retry reports that the request certainly got no response
// there, so that a load balancer would try the next target.
func (c *Client) tryTarget(ctx context.Context, target string, req Request, resp *history.Response, failover bool) (retry bool) {
	attempt := history.Attempt{Target: target, Sent: history.Now()}
	conn, reusable, err := c.sendOnce(ctx, target, req, resp)
	if conn != nil {
		attempt.Reused = conn.isReused
		retry = attempt.Reused && !conn.hasReceived && closedByPeer(err) && c.mayRetry(&attempt, resp)
		c.putIdle(conn, reusable)
	} else {
		attempt.Refused = isRefused(err)
		retry = attempt.Refused
	}
	attempt.Done = history.Now()
	if err != nil {
		attempt.Err = err.Error()
	}
	resp.Attempts = append(resp.Attempts, attempt)
	return retry && failover && ctx.Err() == nil
}

// sendOnce sends r over an idle connection that is still open, or over a new one, and
// returns the connection. k is nil if the dial failed.
func (c *Client) sendOnce(ctx context.Context, target string, req Request, resp *history.Response) (conn *clientConn, reusable bool, err error) {
	deadline, _ := ctx.Deadline()
	for {
		if conn, err = c.getConn(ctx, target); err != nil {
			return nil, false, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		reusable, err = conn.exchange(req, resp, deadline)
		stop()
		if !errors.Is(err, errStale) {
			return conn, reusable, err
		}
		_ = conn.Close()
		c.mu.Lock()
		c.unsolicited += conn.unsolicited
		c.mu.Unlock()
	}
}

// isRefused reports whether a dial failed because the listener is closed, or was closed
// just then. In the second case the kernel resets connections that were not accepted yet,
// possibly before the dial returns. Nothing was sent.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// closedByPeer distinguishes the end of an idle connection from a timeout.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// getConn returns an idle connection or a new one.
func (c *Client) getConn(ctx context.Context, target string) (*clientConn, error) {
	if conn := c.takeIdle(target); conn != nil {
		conn.isReused = true
		return conn, nil
	}
	netConn, err := c.dial(ctx, target)
	if err != nil {
		return nil, err
	}
	return newConn(netConn, target), nil
}

func (c *Client) takeIdle(target string) *clientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conns := c.idle[target]
	if len(conns) == 0 {
		return nil
	}
	conn := conns[len(conns)-1]
	c.idle[target] = conns[:len(conns)-1]
	return conn
}

func (c *Client) putIdle(conn *clientConn, reusable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !reusable || c.closed {
		_ = conn.Close()
		return
	}
	c.idle[conn.target] = append(c.idle[conn.target], conn)
}

// Unsolicited returns the number of bytes that arrived on idle connections. They belong
// to no request.
func (c *Client) Unsolicited() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsolicited
}

// wait waits for d, and returns false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
