//go:build linux

package chaos

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// stalePoll is the interval between two queries of a node for stale returns.
const stalePoll = 100 * time.Millisecond

// staleReturns collects the shards that returned in this round to an app that may still cache their
// old state. Such an app returns stale values, and overwrites the updates that another app made in the
// meantime. Nodes report these returns.
type staleReturns struct {
	stop func()
	done chan struct{}

	mu     sync.Mutex
	shards map[uint32]bool
}

// watchStaleReturns polls the nodes for stale returns until stopAndCollect is called.
func watchStaleReturns(nodes []*cluster.Node) *staleReturns {
	ctx, stop := context.WithCancel(context.Background())
	returns := &staleReturns{stop: stop, done: make(chan struct{}), shards: map[uint32]bool{}}
	go func() {
		defer close(returns.done)
		for ctx.Err() == nil {
			for _, node := range nodes {
				shards, _ := node.StaleReturns(ctx) // A node that is down has nothing to report.
				returns.mu.Lock()
				for _, shard := range shards {
					returns.shards[shard] = true
				}
				returns.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(stalePoll):
			}
		}
	}()
	return returns
}

// stopAndCollect ends the polling and returns the shards.
func (s *staleReturns) stopAndCollect() map[uint32]bool {
	s.stop()
	<-s.done
	return s.shards
}

// emptyCaches makes all apps drop their caches, and tells the cluster that the apps restarted. A shard
// must not return to an app that caches its old state: the app would return a stale value or lose an
// update. Otherwise every node would soon have owned every shard at some point, leaving no app to which
// a shard could still move.
func (sc *scenario) emptyCaches() {
	for _, node := range sc.members {
		node.App.ClearCache(sc)
	}
	for _, node := range sc.members {
		sc.retryUntilSuccess("app-restarted "+node.ID, func() error {
			return sc.members[0].TryAction(sc.Context(), "app-restarted", url.Values{"node": {node.ID}})
		})
	}
	sc.spareNode.App.ClearCache(sc)
}

// findLostWrites checks apps that cache counters, and returns the violations. Each acknowledged write
// must set the counter of its key to a higher value than all writes that were acknowledged before it
// was sent. Otherwise the app has incremented an old copy, and the writes since that copy are lost.
//
// Two kinds of shards are excused:
//   - those in staleShards, because a node has reported that they returned to an app with an old copy
//   - those that ran on two nodes at once for an excused reason, because only a store that checks
//     epochs is protected against that
func (sc *scenario) findLostWrites(responses []history.Response, report *history.Report, staleShards map[uint32]bool) (violations []string) {
	byKey := responsesByKey(responses, func(resp history.Response) bool {
		shard := sc.shardOf(resp)
		isExcused := staleShards[shard] || report.OverlapsByShard[shard] > 0
		return resp.OK() && resp.Method == http.MethodPost && resp.Register == "" && !isExcused
	})
	for key, writes := range byKey {
		violations = append(violations, findLostIncrements(key, writes)...)
	}
	return violations
}
