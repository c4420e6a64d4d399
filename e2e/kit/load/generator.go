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

// Options say what a Generator sends.
type Options struct {
	// Client sends the requests. It stays the caller's.
	Client *Client
	// Rate is how many requests a second begin.
	Rate int
	// Keys are used in turn.
	Keys []string
	// Prefix starts every id; it must be the generator's own in its test.
	Prefix string
	// Make, if not nil, may change the n-th request before it is sent. Odd ones
	// are POSTs with a small body, even ones GETs; both go to every key.
	Make func(n int, r *Request)
	// Timeout bounds each request. 0 is a minute.
	Timeout time.Duration
	// Again has a GET for the same key follow a request that failed, every 5 ms
	// until one is served or Timeout is over: so it shows when the key is served
	// again. Their ids are those of the failed ones with AgainMark and a number.
	Again bool
}

// AgainMark is in the ids of requests that Options.Again made.
const AgainMark = "+"

// Generator sends requests at a rate until it is stopped.
type Generator struct {
	o       Options
	stop    context.CancelFunc
	done    chan struct{} // closed when the last answer is there
	abort   context.CancelFunc
	begun   atomic.Int64
	ended   atomic.Int64
	mu      sync.Mutex
	answers []history.Response
}

// Start begins to send. ctx ends the requests under way too: Stop does not.
func Start(ctx context.Context, o Options) *Generator {
	requests, abort := context.WithCancel(ctx)
	clock, stop := context.WithCancel(requests)
	g := &Generator{o: o, stop: stop, abort: abort, done: make(chan struct{})}
	go g.run(clock, requests)
	return g
}

// run keeps the rate by the clock: after a stall it catches up, so that n
// seconds hold n times Rate requests whatever the machine does.
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
			r := g.request(n)
			g.begun.Add(1)
			running.Go(func() { g.send(requests, r) })
		}
		select {
		case <-tick.C:
		case <-clock.Done():
			return
		}
	}
}

func (g *Generator) request(n int) Request {
	r := Request{
		ID:      fmt.Sprintf("%s-%d", g.o.Prefix, n),
		Key:     g.o.Keys[n/2%len(g.o.Keys)],
		Timeout: g.o.Timeout,
	}
	if n%2 == 1 {
		r.Method, r.Body = "POST", []byte(r.ID)
	}
	if g.o.Make != nil {
		g.o.Make(n, &r)
	}
	return r
}

func (g *Generator) send(ctx context.Context, r Request) {
	defer g.ended.Add(1)
	a := g.do(ctx, r)
	if !g.o.Again {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(g.o.Timeout, time.Minute))
	defer cancel()
	for n := 1; !a.OK() && wait(ctx, 5*time.Millisecond); n++ {
		a = g.do(ctx, Request{ID: fmt.Sprint(r.ID, AgainMark, n), Key: r.Key, Timeout: r.Timeout})
	}
}

func (g *Generator) do(ctx context.Context, r Request) history.Response {
	a := g.o.Client.Do(ctx, r)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers = append(g.answers, a)
	return a
}

// Begun is the number of requests sent so far.
func (g *Generator) Begun() int { return int(g.begun.Load()) }

// Waiting is the number of requests that have no answer yet.
func (g *Generator) Waiting() int { return int(g.begun.Load() - g.ended.Load()) }

// Answers are those that came so far.
func (g *Generator) Answers() []history.Response {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]history.Response{}, g.answers...)
}

// Stop sends no more, waits for the answers that are due, and returns all.
func (g *Generator) Stop() []history.Response {
	g.stop()
	<-g.done
	g.abort()
	return g.Answers()
}
