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

// Traffic says what a Load sends.
type Traffic struct {
	// Rate is requests a second; 0 is 200.
	Rate int
	// Keys are used in turn; none: one for each shard of the cluster.
	Keys []string
	// Make may change the n-th request; see load.Options. Nil is Mixed.
	Make func(n int, r *load.Request)
	// Timeout bounds each request; 0 is 30 s.
	Timeout time.Duration
}

// Mixed gives requests what they have in life: some take their time in the app,
// some have a big answer, in one piece or in chunks, and some a body too big to be
// kept for another try. All kinds come as GET and as POST, except the last.
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

// Load is a load generator at work on a cluster.
type Load struct {
	*load.Generator

	c      *Cluster
	client *load.Client
}

// Addrs are the addresses at which clients reach the nodes.
func Addrs(nodes []*Node) []string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Load begins to send to these nodes, in turn. End it with Finish.
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

// Send replaces the nodes to which the next requests go.
func (l *Load) Send(nodes []*Node) { l.client.SetTargets(Addrs(nodes)) }

// Flow waits until n further requests have begun: the measure of time under
// load.
func (l *Load) Flow(tb testing.TB, n int) {
	tb.Helper()
	until := l.Begun() + n
	Await(tb, "load flows", func() error {
		if b := l.Begun(); b < until {
			return fmt.Errorf("%d of %d requests begun", b, until)
		}
		return nil
	})
}

// Finish stops the load, waits for its answers, and judges everything that
// happened in the cluster so far. No other load may be at work: its runs would be
// nobody's.
func (l *Load) Finish(tb testing.TB) *history.Report {
	tb.Helper()
	l.End(tb)
	return l.c.Judge(tb)
}

// End stops the load and waits for its answers; the next Judge takes them.
func (l *Load) End(tb testing.TB) {
	tb.Helper()
	l.c.answers = append(l.c.answers, l.Stop()...)
	if n := l.client.Unasked(); n > 0 {
		tb.Errorf("%d bytes came on idle connections", n)
	}
}

// Ask sends one request to one node, once, and returns what came. The next
// Judge knows of it, but judges only its runs: the test judges the answer.
func (c *Cluster) Ask(tb testing.TB, n *Node, r load.Request) history.Response {
	tb.Helper()
	c.loads++
	if r.ID == "" {
		r.ID = fmt.Sprintf("ask%d", c.loads)
	}
	client := load.NewClient(nil, nil)
	defer client.Close()
	a := client.DoAt(tb.Context(), n.Addr, r)
	c.asked[a.ID] = a.Denied()
	return a
}

// Expect tells Judge of a request that the test sends by itself: only its run is
// judged.
func (c *Cluster) Expect(id string) { c.asked[id] = false }

// Asking is a request under way.
type Asking struct {
	done   chan struct{}
	answer history.Response
}

// AskLater is Ask in the background.
func (c *Cluster) AskLater(tb testing.TB, n *Node, r load.Request) *Asking {
	tb.Helper()
	c.loads++
	if r.ID == "" {
		r.ID = fmt.Sprintf("ask%d", c.loads)
	}
	c.asked[r.ID] = false
	a := &Asking{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	client := load.NewClient(nil, nil)
	go func() {
		defer close(a.done)
		a.answer = client.DoAt(ctx, n.Addr, r)
	}()
	tb.Cleanup(func() { cancel(); <-a.done; client.Close() })
	return a
}

// Answer waits for it.
func (a *Asking) Answer(tb testing.TB) history.Response {
	tb.Helper()
	t := time.NewTimer(2 * Patience)
	defer t.Stop()
	select {
	case <-a.done:
	case <-t.C:
		tb.Fatal("no answer, and no timeout either")
	}
	return a.answer
}

// Pending tells whether there is no answer yet.
func (a *Asking) Pending() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}
