//go:build linux

package chaos

import (
	"fmt"
	"net/http"
	"slices"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// slowDelay is how long the slow request takes: less than --drain-timeout.
const slowDelay = "4s"

// slowMove drains a node while it runs one GET request that takes seconds. Meanwhile, other
// nodes must already serve all other keys of the node.
type slowMove struct {
	victim *cluster.Node
	key    string        // of the slow request
	done   chan struct{} // closed when the slow request has its response
}

func (*slowMove) name() string { return "slow request" }

// exclusive excludes other faults, because they could make the cluster refuse the drain.
func (*slowMove) exclusive() {}

func (f *slowMove) begin(sc *scenario) {
	f.victim = sc.pickNode(anyNode)
	f.done = make(chan struct{})
	f.key = sc.mapAtStart.Keys(f.victim.ID, 1)[0]
	sc.tracef("%s runs a request for key %s that takes %s", f.victim.ID, f.key, slowDelay)
	sc.traffic.sendSlow(f.key, f.done)
}

// whileActive drains the node with the slow request. It reports an error if other keys move only after that request.
func (f *slowMove) whileActive(sc *scenario) {
	otherKeys := slices.DeleteFunc(sc.mapAtStart.Keys(f.victim.ID, 8), func(key string) bool {
		return sc.cluster.ShardOf(key) == sc.cluster.ShardOf(f.key)
	})
	sc.requestDrain(f.victim)
	cluster.Await(sc, "other keys of the move are served elsewhere", func() error {
		shardMap, err := sc.membersExcept(f.victim)[0].Map(sc.Context())
		if err != nil {
			return err
		}
		for _, key := range otherKeys {
			if shardMap.OwnerOf(key) == f.victim.ID {
				return fmt.Errorf("%s is still at %s", key, f.victim.ID)
			}
		}
		return nil
	})
	select {
	case <-f.done:
		sc.Errorf("keys of %s moved only after its slow request had ended", f.victim.ID)
	default:
	}
	<-f.done
	sc.awaitEmpty(f.victim)
}

func (f *slowMove) end(sc *scenario) { sc.withdrawRequests(f.victim) }

// sendSlow sends one GET that takes slowDelay, and closes done after its response.
func (t *traffic) sendSlow(key string, done chan struct{}) {
	t.sendSingle(t.clients[0], load.Request{
		ID: t.nextID("slow"), Key: key, Method: http.MethodGet, Timeout: t.sc.opts.clientTimeout(),
		Header: map[string]string{"App-Delay": slowDelay},
	}, func() { close(done) })
}
