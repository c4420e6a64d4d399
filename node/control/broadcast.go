package control

import (
	"context"
	"slices"
	"sync"
)

// MaxParallel is the maximum number of nodes that Broadcast calls concurrently.
const MaxParallel = 16

// Broadcast sends the same request to several nodes. Each reply is decoded into a copy of blank.
// unresponsive contains the nodes that did not respond before ctx ended, sorted.
func Broadcast[T any](ctx context.Context, c *Client, nodes []string, q Request, blank T) (replies map[string]T, unresponsive []string) {
	var mu sync.Mutex // protects replies and unresponsive
	var calls sync.WaitGroup
	replies, unresponsive = map[string]T{}, []string{}
	slots := make(chan struct{}, MaxParallel)
	for _, node := range nodes {
		calls.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			reply := blank
			err := c.Call(ctx, node, q, &reply)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.log.Debug().Err(err).Str("peer", node).Str("what", string(q.Kind)).Msg("node did not respond to request")
				unresponsive = append(unresponsive, node)
				return
			}
			replies[node] = reply
		})
	}
	calls.Wait()
	slices.Sort(unresponsive)
	return replies, unresponsive
}
