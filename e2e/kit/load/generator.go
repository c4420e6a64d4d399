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
	// ModifyRequest may change the n-th request before it is sent; nil means no change. Requests
	// with odd n are POSTs with a small body, the others are GETs. Both use every key.
	ModifyRequest func(n int, r *Request)
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
	opts    Options
	stop    context.CancelFunc // no further request starts
	abort   context.CancelFunc // requests in flight are canceled
	done    chan struct{}      // closed after the last response
	started atomic.Int64       // number of started requests
	ended   atomic.Int64       // number of requests with a result

	mu        sync.Mutex // protects responses
	responses []history.Response
}

// Start starts to send requests until Stop is called or ctx ends. The end of ctx also cancels
// requests in flight, which Stop does not.
func Start(ctx context.Context, opts Options) *Generator {
	requestCtx, abort := context.WithCancel(ctx)
	untilStop, stop := context.WithCancel(requestCtx)
	g := &Generator{opts: opts, stop: stop, abort: abort, done: make(chan struct{})}
	go g.run(untilStop, requestCtx)
	return g
}

// run starts requests until untilStop ends, and waits for their responses. After a delay it starts the
// missed requests at once, so that n seconds always contain n times Rate requests.
func (g *Generator) run(untilStop, requestCtx context.Context) {
	defer close(g.done)
	var running sync.WaitGroup
	defer running.Wait()
	interval := time.Second / time.Duration(g.opts.Rate)
	tick := time.NewTicker(max(interval, time.Millisecond))
	defer tick.Stop()
	start := time.Now()
	for n := 0; ; {
		for dueRequests := int(time.Since(start) / interval); n <= dueRequests; n++ {
			req := g.request(n)
			g.started.Add(1)
			running.Go(func() { g.sendWithRetries(requestCtx, req) })
		}
		select {
		case <-tick.C:
		case <-untilStop.Done():
			return
		}
	}
}

// request returns the n-th request.
func (g *Generator) request(number int) Request {
	req := Request{
		ID:      fmt.Sprintf("%s-%d", g.opts.Prefix, number),
		Key:     g.opts.Keys[number/2%len(g.opts.Keys)],
		Timeout: g.opts.Timeout,
	}
	if number%2 == 1 {
		req.Method, req.Body = "POST", []byte(req.ID)
	}
	if g.opts.ModifyRequest != nil {
		g.opts.ModifyRequest(number, &req)
	}
	return req
}

// retryInterval is the pause before a further request for the key of a failed one.
const retryInterval = 5 * time.Millisecond

// sendWithRetries sends a request. If the request fails and Options.RetryFailed is set, it sends
// further requests for the same key until one succeeds.
func (g *Generator) sendWithRetries(ctx context.Context, req Request) {
	defer g.ended.Add(1)
	resp := g.sendAndRecord(ctx, req)
	if !g.opts.RetryFailed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(g.opts.Timeout, defaultTimeout))
	defer cancel()
	for retry := 1; !resp.OK() && wait(ctx, retryInterval); retry++ {
		resp = g.sendAndRecord(ctx, Request{ID: fmt.Sprint(req.ID, RetryMark, retry), Key: req.Key, Timeout: req.Timeout})
	}
}

// sendAndRecord sends a request and records its response.
func (g *Generator) sendAndRecord(ctx context.Context, req Request) history.Response {
	resp := g.opts.Client.Do(ctx, req)
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
