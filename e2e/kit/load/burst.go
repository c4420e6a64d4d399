//go:build linux

package load

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"shardway/e2e/kit/history"
)

// BurstOptions are the parameters of Burst.
type BurstOptions struct {
	// Target is the only target.
	Target string
	// Conns is the number of connections, which are opened at once.
	Conns int
	// For is how long each connection sends requests.
	For time.Duration
	// Keys are used in turn.
	Keys []string
	// Prefix is the prefix of every request ID.
	Prefix string
	// Timeout is the timeout of each request. A connection stops after a timeout.
	Timeout time.Duration
}

// BurstResult is the result of a burst.
type BurstResult struct {
	// Times are the durations of the successful requests, in ascending order.
	Times []time.Duration
	// Failed are the responses of failed requests.
	Failed []history.Response
}

// Burst opens many connections to one target at the same time, sends successive GET
// requests on each, and returns after the last response.
func Burst(ctx context.Context, opts BurstOptions) BurstResult {
	client := NewClient([]string{opts.Target}, nil)
	defer client.Close()
	var (
		all sync.WaitGroup
		mu  sync.Mutex
		b   BurstResult
	)
	until := time.Now().Add(opts.For)
	for i := range opts.Conns {
		all.Go(func() {
			var times []time.Duration
			var failed []history.Response
			for n := 0; len(failed) == 0 && time.Now().Before(until) && ctx.Err() == nil; n++ {
				resp := client.DoAt(ctx, opts.Target, Request{
					ID: fmt.Sprintf("%s-%d-%d", opts.Prefix, i, n), Key: opts.Keys[(i+n)%len(opts.Keys)], Timeout: opts.Timeout,
				})
				if resp.Status != http.StatusOK {
					failed = append(failed, resp)
					continue
				}
				times = append(times, time.Duration(resp.Done()-resp.Sent()))
			}
			mu.Lock()
			defer mu.Unlock()
			b.Times, b.Failed = append(b.Times, times...), append(b.Failed, failed...)
		})
	}
	all.Wait()
	slices.Sort(b.Times)
	return b
}
