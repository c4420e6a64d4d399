//go:build linux

package load

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardway/e2e/kit/history"
)

// Options are the parameters of a Generator.
type Options struct {
	// Client sends the requests. The caller must close it.
	Client *Client
	// Rate is the number of requests that start per second.
	Rate int
	// Keys are used in turn.
	Keys []string
	// Prefix is the prefix of every request ID. It must be unique in the test.
	Prefix string
	// Make may change the n-th request before it is sent; nil means no change. Requests
	// with odd n are POSTs with a small body, the others are GETs. Both use every key.
	Make func(n int, r *Request)
	// Timeout is the timeout of each request; 0 means one minute.
	Timeout time.Duration
	// RetryFailed sends a GET for the same key after a failed request, every 5 ms until
	// one succeeds or Timeout is over. This shows when the key is served again. The ID of
	// such a request is the ID of the failed one with RetryMark and a number.
	RetryFailed bool
}

// RetryMark is part of the IDs of the requests of Options.RetryFailed.
const RetryMark = "+"

// Generator sends requests at a constant rate until it is stopped.
type Generator struct {
	o         Options
	stop      context.CancelFunc
	done      chan struct{} // closed after the last response
	abort     context.CancelFunc
	started   atomic.Int64
	ended     atomic.Int64
	mu        sync.Mutex
	responses []history.Response
}

// Start starts to send. The end of ctx also cancels requests in flight, which Stop does
// not.
func Start(ctx context.Context, opts Options) *Generator {
	requests, abort := context.WithCancel(ctx)
	clock, stop := context.WithCancel(requests)
	g := &Generator{o: opts, stop: stop, abort: abort, done: make(chan struct{})}
	go g.run(clock, requests)
	return g
}

// run keeps the rate by the clock: after a stall it catches up, so that n seconds always
// contain n times Rate requests.
func (g *Generator) run(clock, requests context.Context) {
	defer close(g.done)
	var running sync.WaitGroup
	defer running.Wait()
	gap := time.Second / time.Duration(g.o.Rate)
	tick := time.NewTicker(max(gap, time.Millisecond))
	defer tick.Stop()
	start := time.Now()
	for n := 0; ; {
		for due := int(time.Since(start) / gap); n <= due; n++ {
			req := g.request(n)
			g.started.Add(1)
			running.Go(func() { g.send(requests, req) })
		}
		select {
		case <-tick.C:
		case <-clock.Done():
			return
		}
	}
}

func (g *Generator) request(n int) Request {
	req := Request{
		ID:      fmt.Sprintf("%s-%d", g.o.Prefix, n),
		Key:     g.o.Keys[n/2%len(g.o.Keys)],
		Timeout: g.o.Timeout,
	}
	if n%2 == 1 {
		req.Method, req.Body = "POST", []byte(req.ID)
	}
	if g.o.Make != nil {
		g.o.Make(n, &req)
	}
	return req
}

func (g *Generator) send(ctx context.Context, req Request) {
	defer g.ended.Add(1)
	resp := g.do(ctx, req)
	if !g.o.RetryFailed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(g.o.Timeout, time.Minute))
	defer cancel()
	for n := 1; !resp.OK() && wait(ctx, 5*time.Millisecond); n++ {
		resp = g.do(ctx, Request{ID: fmt.Sprint(req.ID, RetryMark, n), Key: req.Key, Timeout: req.Timeout})
	}
}

func (g *Generator) do(ctx context.Context, req Request) history.Response {
	resp := g.o.Client.Do(ctx, req)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.responses = append(g.responses, resp)
	return resp
}

// Started returns the number of started requests.
func (g *Generator) Started() int { return int(g.started.Load()) }

// Pending returns the number of requests without a response.
func (g *Generator) Pending() int { return int(g.started.Load() - g.ended.Load()) }

// Responses returns the responses so far.
func (g *Generator) Responses() []history.Response {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]history.Response{}, g.responses...)
}

// Stop sends no more requests, waits for pending responses, and returns all.
func (g *Generator) Stop() []history.Response {
	g.stop()
	<-g.done
	g.abort()
	return g.Responses()
}
