//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// stalePoll is how often the nodes are asked for stale returns.
const stalePoll = 100 * time.Millisecond

// staleReturns collects the shards of which a node has said in a round that they returned to an
// app with an old copy: writes to them may be lost.
type staleReturns struct {
	stop func()
	done chan struct{}

	mu     sync.Mutex
	shards map[uint32]bool
}

// watchStaleReturns asks the nodes until take is called.
func watchStaleReturns(nodes []*cluster.Node) *staleReturns {
	ctx, stop := context.WithCancel(context.Background())
	s := &staleReturns{stop: stop, done: make(chan struct{}), shards: map[uint32]bool{}}
	go func() { // ends with take
		defer close(s.done)
		for ctx.Err() == nil {
			for _, n := range nodes {
				stale, _ := n.StaleReturns(ctx) // a node that is down says nothing
				s.mu.Lock()
				for _, shard := range stale {
					s.shards[shard] = true
				}
				s.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(stalePoll):
			}
		}
	}()
	return s
}

// take ends the watch and returns the shards.
func (s *staleReturns) take() map[uint32]bool {
	s.stop()
	<-s.done
	return s.shards
}

// emptyCaches has all apps drop what they cached, and tells the cluster so. Otherwise soon no
// shard could move to a node that has never had it.
func (w *world) emptyCaches() {
	for _, n := range w.members {
		n.App.Forget(w)
	}
	for _, n := range w.members {
		w.retry("app-restarted "+n.ID, func() error {
			return w.members[0].Try(w.Context(), "app-restarted", url.Values{"node": {n.ID}})
		})
	}
	w.spare.App.Forget(w)
}

// lostWrites judges apps that cache: each acknowledged write of a key raised its counter above
// those of all writes that were acknowledged before it was sent. A counter that is not higher
// was raised from an old copy, and the writes in between are lost. Shards in stale are excused:
// a node has said that they returned to an old copy. So are shards of which two nodes ran
// requests at once, for a reason that only epochs help against.
func (w *world) lostWrites(answers []history.Response, h *history.Report, stale map[uint32]bool) (wrong []string) {
	byKey := make(map[string][]history.Response)
	for _, a := range answers {
		shard := uint32(load.ShardOf(a.Key, w.o.Shards))
		if a.OK() && a.Method == http.MethodPost && a.Register == "" && h.Overlapped[shard] == 0 && !stale[shard] {
			byKey[a.Key] = append(byKey[a.Key], a)
		}
	}
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b history.Response) int { return int(a.Sent() - b.Sent()) })
		for i, a := range all {
			for _, before := range all[:i] {
				if before.Done() < a.Sent() && a.Count <= before.Count {
					wrong = append(wrong, fmt.Sprintf("%s: %s has count %d, %v after %s had %d", key, a.ID, a.Count, time.Duration(a.Sent()-before.Done()), before.ID, before.Count))
				}
			}
		}
	}
	return wrong
}
