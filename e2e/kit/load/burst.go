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
	deadline := time.Now().Add(opts.Duration)
	results := make([]BurstResult, opts.Conns)
	var running sync.WaitGroup
	for i := range results {
		running.Go(func() { results[i] = opts.sendUntil(ctx, deadline, client, i) })
	}
	running.Wait()
	var sum BurstResult
	for _, result := range results {
		sum.Latencies = append(sum.Latencies, result.Latencies...)
		sum.Failed = append(sum.Failed, result.Failed...)
	}
	slices.Sort(sum.Latencies)
	return sum
}

// sendUntil sends the requests of one connection, until the deadline or the first failure.
func (o *BurstOptions) sendUntil(ctx context.Context, deadline time.Time, client *Client, connIndex int) BurstResult {
	var result BurstResult
	for n := 0; time.Now().Before(deadline) && ctx.Err() == nil; n++ {
		resp := client.DoAt(ctx, o.Target, Request{
			ID: fmt.Sprintf("%s-%d-%d", o.Prefix, connIndex, n), Key: o.Keys[(connIndex+n)%len(o.Keys)], Timeout: o.Timeout,
		})
		if resp.Status != http.StatusOK {
			result.Failed = append(result.Failed, resp)
			return result
		}
		result.Latencies = append(result.Latencies, time.Duration(resp.DoneAt()-resp.SentAt()))
	}
	return result
}
