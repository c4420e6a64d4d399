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
	// ModifyRequest may change the n-th request; see load.Options. nil means MixRequests.
	ModifyRequest func(n int, r *load.Request)
	// Timeout is the timeout of each request; 0 means 30 s.
	Timeout time.Duration
}

// MixRequests changes some requests, so that they vary like those of real clients. Some take time
// in the app, some have a large response, with or without chunks, and some have a body that is too
// large to be buffered for a retry. Each kind exists as GET and as POST, except the last one.
func MixRequests(n int, req *load.Request) {
	switch n % 20 {
	case 4, 5:
		req.Header = map[string]string{"App-Delay": "50ms"}
	case 8, 9:
		req.Header = map[string]string{"App-Size": "50000"}
	case 12, 13:
		req.Header = map[string]string{"App-Size": "3000", "App-Chunks": "6", "App-Delay": "10ms"}
	case 17:
		req.Body = make([]byte, 100_000)
	}
}

// Load is a running load generator for a cluster.
type Load struct {
	*load.Generator

	cluster *Cluster
	client  *load.Client
}

// Addrs returns the client addresses of the nodes.
func Addrs(nodes []*Node) []string {
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// Load starts to send requests to these nodes, in turn. Load.Finish or Load.EndLoad stops it.
func (c *Cluster) Load(tb testing.TB, nodes []*Node, traffic Traffic) *Load {
	tb.Helper()
	if traffic.Rate == 0 {
		traffic.Rate = 200
	}
	if traffic.Timeout == 0 {
		traffic.Timeout = 30 * time.Second
	}
	if len(traffic.Keys) == 0 {
		traffic.Keys = c.Keys("key", 1)
	}
	if traffic.ModifyRequest == nil {
		traffic.ModifyRequest = MixRequests
	}
	c.loadCount++
	client := load.NewClient(Addrs(nodes), nil)
	ctx, abort := context.WithCancel(context.WithoutCancel(tb.Context()))
	running := &Load{cluster: c, client: client, Generator: load.Start(ctx, load.Options{
		Client: client, Rate: traffic.Rate, Keys: traffic.Keys, ModifyRequest: traffic.ModifyRequest, Timeout: traffic.Timeout,
		Prefix: fmt.Sprintf("l%d", c.loadCount),
	})}
	tb.Cleanup(func() { abort(); running.Stop(); client.Close() })
	return running
}

// SetTargets replaces the nodes that receive the next requests.
func (l *Load) SetTargets(nodes []*Node) { l.client.SetTargets(Addrs(nodes)) }

// AwaitStarted waits until n more requests have started. Tests measure time under load by the
// number of started requests, because a slow machine sends fewer requests in the same time.
func (l *Load) AwaitStarted(tb testing.TB, n int) {
	tb.Helper()
	wanted := l.Started() + n
	Await(tb, "requests start", func() error {
		if started := l.Started(); started < wanted {
			return fmt.Errorf("%d of %d requests started", started, wanted)
		}
		return nil
	})
}

// Finish stops the load, waits for its responses, and checks everything that happened in the
// cluster so far. No other load may be running, because the check would find its runs without
// their requests.
func (l *Load) Finish(tb testing.TB) *history.Report {
	tb.Helper()
	l.EndLoad(tb)
	return l.cluster.Check(tb)
}

// EndLoad stops the load and waits for its responses. The next call of Check checks them.
func (l *Load) EndLoad(tb testing.TB) {
	tb.Helper()
	l.cluster.responses = append(l.cluster.responses, l.Stop()...)
	if n := l.client.Unsolicited(); n > 0 {
		tb.Errorf("%d unsolicited bytes on idle connections", n)
	}
}

// SendRequest sends a request to a node, without retries, and returns the response. Check checks
// only the runs of the request: the test must check the response.
func (c *Cluster) SendRequest(tb testing.TB, node *Node, req load.Request) history.Response {
	tb.Helper()
	c.loadCount++
	if req.ID == "" {
		req.ID = fmt.Sprintf("ask%d", c.loadCount)
	}
	client := load.NewClient(nil, nil)
	defer client.Close()
	resp := client.DoAt(tb.Context(), node.Addr, req)
	c.testRequests[resp.ID] = resp.Denied()
	return resp
}

// ExpectRequest announces a request that the test sends with its own client. Check checks only the
// runs of the request.
func (c *Cluster) ExpectRequest(id string) { c.testRequests[id] = false }

// AsyncRequest is a request that SendAsync has started.
type AsyncRequest struct {
	done     chan struct{}
	response history.Response
}

// SendAsync is like SendRequest, but does not wait for the response.
func (c *Cluster) SendAsync(tb testing.TB, node *Node, req load.Request) *AsyncRequest {
	tb.Helper()
	c.loadCount++
	if req.ID == "" {
		req.ID = fmt.Sprintf("ask%d", c.loadCount)
	}
	c.testRequests[req.ID] = false
	async := &AsyncRequest{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	client := load.NewClient(nil, nil)
	go func() {
		defer close(async.done)
		async.response = client.DoAt(ctx, node.Addr, req)
	}()
	tb.Cleanup(func() { cancel(); <-async.done; client.Close() })
	return async
}

// Response waits for the response of the request. It fails the test if there is none in time.
func (a *AsyncRequest) Response(tb testing.TB) history.Response {
	tb.Helper()
	timer := time.NewTimer(2 * AwaitTimeout)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		tb.Fatal("neither a response nor a timeout")
	}
	return a.response
}

// Pending reports whether the request has no response yet.
func (a *AsyncRequest) Pending() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}
