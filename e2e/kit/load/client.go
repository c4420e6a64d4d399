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

	// mu protects the following fields.
	mu         sync.Mutex
	targets    []string
	nextTarget int                      // number of the last used target; its remainder is the index in targets
	idleConns  map[string][]*clientConn // by target
	isClosed   bool                     // no connection is kept any more
	noRetry    []string                 // targets that get no unsafe request twice
	// removedAt contains the time at which a target was last removed from noRetry, a value of
	// history.Now.
	removedAt map[string]int64
	// unsolicited is the number of bytes that arrived on idle connections.
	unsolicited int
}

// NewClient returns a client that sends requests to these targets ("host:port") in turn. A nil dial
// means plain TCP.
func NewClient(targets []string, dial func(ctx context.Context, addr string) (net.Conn, error)) *Client {
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	return &Client{dial: dial, targets: targets, idleConns: make(map[string][]*clientConn), removedAt: make(map[string]int64)}
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

// mayRetry reports whether a request may be sent to the next target after an attempt on an idle
// connection that the target had closed. A safe request may always be repeated.
func (c *Client) mayRetry(attempt *history.Attempt, resp *history.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if resp.Safe() {
		return true
	}
	removedAt, wasRemoved := c.removedAt[attempt.Target]
	wasForbidden := wasRemoved && attempt.Sent <= removedAt // when the attempt started
	return !wasForbidden && !slices.Contains(c.noRetry, attempt.Target)
}

// Close closes the idle connections. From now on, the client closes each connection after its
// request.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
	for _, conns := range c.idleConns {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	clear(c.idleConns)
}

// Do sends a request to successive targets until one of them responds, and returns the result.
func (c *Client) Do(ctx context.Context, req Request) history.Response {
	return c.send(ctx, req, "")
}

// DoAt sends a request to one target, without retries, and returns the result.
func (c *Client) DoAt(ctx context.Context, target string, req Request) history.Response {
	return c.send(ctx, req, target)
}

// send sends a request to onlyTarget, or if that is empty, to successive targets until one of them
// responds.
func (c *Client) send(ctx context.Context, req Request, onlyTarget string) history.Response {
	req = req.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	resp := history.Response{ID: req.ID, Key: req.Key, Method: req.Method, Register: req.Header["App-Register"]}
	if resp.Register != "" && !resp.Safe() {
		resp.WrittenValue = string(req.Body)
	}
	for try := 1; ; try++ {
		target, targetCount := c.takeTarget(onlyTarget)
		if retry := c.tryTarget(ctx, target, req, &resp, onlyTarget == ""); !retry {
			return resp
		}
		if try%targetCount == 0 && !wait(ctx, retryDelay) {
			return resp
		}
	}
}

// takeTarget returns the next target and the number of targets. If onlyTarget is not empty, it is
// the only target.
func (c *Client) takeTarget(onlyTarget string) (target string, count int) {
	if onlyTarget != "" {
		return onlyTarget, 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextTarget++
	return c.targets[c.nextTarget%len(c.targets)], len(c.targets)
}

// tryTarget sends a request to one target, and records the attempt in resp. retry reports that the
// request certainly got no response, so that a load balancer would try the next target. It is always
// false without failover.
func (c *Client) tryTarget(ctx context.Context, target string, req Request, resp *history.Response, failover bool) (retry bool) {
	attempt := history.Attempt{Target: target, Sent: history.Now()}
	conn, reusable, err := c.sendOnce(ctx, target, req, resp)
	if conn != nil {
		attempt.Reused = conn.isReused
		closedWhileIdle := conn.isReused && !conn.hasReceived && isClosedByPeer(err)
		retry = closedWhileIdle && c.mayRetry(&attempt, resp)
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

// sendOnce sends a request over an idle connection that is still open, or over a new one, and
// returns the connection. conn is nil if the dial failed. reusable reports whether the connection may
// carry another request.
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

// isRefused reports whether a dial failed because the listener is closed, or was closed during the
// dial. In the second case the kernel resets connections that were not accepted yet, possibly before
// the dial returns. The client has sent nothing in both cases.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// isClosedByPeer reports whether an error means that the peer closed the connection. A timeout does
// not.
func isClosedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// getConn returns an idle connection to the target, or a new one if there is none.
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

// takeIdle removes the last used idle connection to the target, and returns it. nil means that there
// is none.
func (c *Client) takeIdle(target string) *clientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conns := c.idleConns[target]
	if len(conns) == 0 {
		return nil
	}
	conn := conns[len(conns)-1]
	c.idleConns[target] = conns[:len(conns)-1]
	return conn
}

// putIdle keeps a connection for later requests if it is reusable, and closes it otherwise.
func (c *Client) putIdle(conn *clientConn, reusable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !reusable || c.isClosed {
		_ = conn.Close()
		return
	}
	c.idleConns[conn.target] = append(c.idleConns[conn.target], conn)
}

// Unsolicited returns the number of bytes that arrived on idle connections. They belong
// to no request.
func (c *Client) Unsolicited() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsolicited
}

// wait waits for a duration. It returns false if ctx ends before that.
func wait(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
