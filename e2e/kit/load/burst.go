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
	// Duration is how long each connection sends requests.
	Duration time.Duration
	// Keys are used in turn.
	Keys []string
	// Prefix is the prefix of every request ID.
	Prefix string
	// Timeout is the timeout of each request. A connection stops after a timeout.
	Timeout time.Duration
}

// BurstResult is the result of a burst.
type BurstResult struct {
	// Latencies are the durations of the successful requests, in ascending order.
	Latencies []time.Duration
	// Failed are the responses of failed requests.
	Failed []history.Response
}

// Burst opens many connections to one target at the same time, sends successive GET
// requests on each, and returns after the last response.
func Burst(ctx context.Context, opts BurstOptions) BurstResult {
	client := NewClient([]string{opts.Target}, nil)
	defer client.Close()
	var (
		clients sync.WaitGroup
		mu      sync.Mutex
		result  BurstResult
	)
	deadline := time.Now().Add(opts.Duration)
	for i := range opts.Conns {
		clients.Go(func() {
			var times []time.Duration
			var failed []history.Response
			for n := 0; len(failed) == 0 && time.Now().Before(deadline) && ctx.Err() == nil; n++ {
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
			result.Latencies, result.Failed = append(result.Latencies, times...), append(result.Failed, failed...)
		})
	}
	clients.Wait()
	slices.Sort(result.Latencies)
	return result
}
