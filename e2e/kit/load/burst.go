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

// BurstOptions say what Burst sends.
type BurstOptions struct {
	// Target is asked, and no other.
	Target string
	// Conns is how many connections are opened, all at once.
	Conns int
	// For is how long each goes on asking.
	For time.Duration
	// Keys are used in turn.
	Keys []string
	// Prefix starts every id.
	Prefix string
	// Timeout bounds each request; a connection that meets it asks no more.
	Timeout time.Duration
}

// Bursted is what came of a burst.
type Bursted struct {
	// Times are those of the requests that were served, the shortest first.
	Times []time.Duration
	// Failed are the answers that were none, or not good.
	Failed []history.Response
}

// Burst opens many connections to one target at the same moment, sends one GET
// after the other on each, and returns after the last answer.
func Burst(ctx context.Context, o BurstOptions) Bursted {
	client := NewClient([]string{o.Target}, nil)
	defer client.Close()
	var (
		all sync.WaitGroup
		mu  sync.Mutex
		b   Bursted
	)
	until := time.Now().Add(o.For)
	for i := range o.Conns {
		all.Go(func() {
			var times []time.Duration
			var failed []history.Response
			for n := 0; len(failed) == 0 && time.Now().Before(until) && ctx.Err() == nil; n++ {
				a := client.DoAt(ctx, o.Target, Request{
					ID: fmt.Sprintf("%s-%d-%d", o.Prefix, i, n), Key: o.Keys[(i+n)%len(o.Keys)], Timeout: o.Timeout,
				})
				if a.Status != http.StatusOK {
					failed = append(failed, a)
					continue
				}
				times = append(times, time.Duration(a.Done()-a.Sent()))
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
