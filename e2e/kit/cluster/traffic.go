//go:build linux

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// Traffic describes the requests of a Load.
type Traffic struct {
	// Rate is the number of requests per second; 0 means 200.
	Rate int
	// Keys are used in turn; nil means one key for each shard of the cluster.
	Keys []string
	// Make may change the n-th request; see load.Options. nil means Mixed.
	Make func(n int, r *load.Request)
	// Timeout is the timeout of each request; 0 means 30 s.
	Timeout time.Duration
}

// Mixed varies requests as real clients do: some are slow in the app, some have a large
// response, in one piece or in chunks, and some have a body that is too large to be
// buffered for a retry. Each kind exists as GET and as POST, except the last.
func Mixed(n int, r *load.Request) {
	switch n % 20 {
	case 4, 5:
		r.Header = map[string]string{"App-Delay": "50ms"}
	case 8, 9:
		r.Header = map[string]string{"App-Size": "50000"}
	case 12, 13:
		r.Header = map[string]string{"App-Size": "3000", "App-Chunks": "6", "App-Delay": "10ms"}
	case 17:
		r.Body = make([]byte, 100_000)
	}
}

// Load is a running load generator for a cluster.
type Load struct {
	*load.Generator

	c      *Cluster
	client *load.Client
}

// Addrs returns the addresses of the nodes for clients.
func Addrs(nodes []*Node) []string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Load starts to send to these nodes, in turn. Finish ends it.
func (c *Cluster) Load(tb testing.TB, nodes []*Node, t Traffic) *Load {
	tb.Helper()
	if t.Rate == 0 {
		t.Rate = 200
	}
	if t.Timeout == 0 {
		t.Timeout = 30 * time.Second
	}
	if len(t.Keys) == 0 {
		t.Keys = load.KeysIn(c.o.Shards, 1, func(int) bool { return true })
	}
	if t.Make == nil {
		t.Make = Mixed
	}
	c.loads++
	client := load.NewClient(Addrs(nodes), nil)
	ctx, abort := context.WithCancel(context.WithoutCancel(tb.Context()))
	l := &Load{c: c, client: client, Generator: load.Start(ctx, load.Options{
		Client: client, Rate: t.Rate, Keys: t.Keys, Make: t.Make, Timeout: t.Timeout,
		Prefix: fmt.Sprintf("l%d", c.loads),
	})}
	tb.Cleanup(func() { abort(); l.Stop(); client.Close() })
	return l
}

// Send replaces the target nodes of the next requests.
func (l *Load) Send(nodes []*Node) { l.client.SetTargets(Addrs(nodes)) }

// AwaitStarted waits until n more requests have started. Tests measure time under load in
// started requests.
func (l *Load) AwaitStarted(tb testing.TB, n int) {
	tb.Helper()
	until := l.Started() + n
	Await(tb, "requests start", func() error {
		if b := l.Started(); b < until {
			return fmt.Errorf("%d of %d requests started", b, until)
		}
		return nil
	})
}

// Finish stops the load, waits for its responses, and checks everything that happened in
// the cluster so far. No other load may be running, since its runs would belong to
// unknown requests.
func (l *Load) Finish(tb testing.TB) *history.Report {
	tb.Helper()
	l.End(tb)
	return l.c.Check(tb)
}

// End stops the load and waits for its responses, which the next Check includes.
func (l *Load) End(tb testing.TB) {
	tb.Helper()
	l.c.responses = append(l.c.responses, l.Stop()...)
	if n := l.client.Unsolicited(); n > 0 {
		tb.Errorf("%d unsolicited bytes on idle connections", n)
	}
}

// Ask sends one request to one node, once, and returns the response. The next Check
// includes only its runs: the test must check the response.
func (c *Cluster) Ask(tb testing.TB, n *Node, r load.Request) history.Response {
	tb.Helper()
	c.loads++
	if r.ID == "" {
		r.ID = fmt.Sprintf("ask%d", c.loads)
	}
	client := load.NewClient(nil, nil)
	defer client.Close()
	a := client.DoAt(tb.Context(), n.Addr, r)
	c.known[a.ID] = a.Denied()
	return a
}

// Expect announces a request that the test sends by other means. Check includes only its
// run.
func (c *Cluster) Expect(id string) { c.known[id] = false }

// AsyncRequest is a request in flight.
type AsyncRequest struct {
	done     chan struct{}
	response history.Response
}

// AskAsync is Ask in the background.
func (c *Cluster) AskAsync(tb testing.TB, n *Node, r load.Request) *AsyncRequest {
	tb.Helper()
	c.loads++
	if r.ID == "" {
		r.ID = fmt.Sprintf("ask%d", c.loads)
	}
	c.known[r.ID] = false
	a := &AsyncRequest{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	client := load.NewClient(nil, nil)
	go func() {
		defer close(a.done)
		a.response = client.DoAt(ctx, n.Addr, r)
	}()
	tb.Cleanup(func() { cancel(); <-a.done; client.Close() })
	return a
}

// Response waits for the response.
func (a *AsyncRequest) Response(tb testing.TB) history.Response {
	tb.Helper()
	t := time.NewTimer(2 * Patience)
	defer t.Stop()
	select {
	case <-a.done:
	case <-t.C:
		tb.Fatal("neither a response nor a timeout")
	}
	return a.response
}

// Pending reports whether there is no response yet.
func (a *AsyncRequest) Pending() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}
