//go:build linux

package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// eventInterval is the interval between the events of a stream. The app sends each event in two
// parts, half an interval apart.
const eventInterval = 80 * time.Millisecond

// followers are clients that read resumable event streams, each with its own key, as long as the
// cluster runs. When a connection breaks, the client reconnects to the next node.
type followers struct {
	sc      *scenario
	clients []*load.Follower
	stop    context.CancelFunc
	running sync.WaitGroup
}

// startFollowers starts count clients.
func startFollowers(sc *scenario, count int) *followers {
	ctx, stop := context.WithCancel(context.Background())
	started := &followers{sc: sc, stop: stop}
	for i, key := range sc.cluster.Keys("follow", 1)[:count] {
		started.clients = append(started.clients, load.NewFollower(fmt.Sprint("follower", i), key, eventInterval))
	}
	started.setTargets(sc.members)
	for _, follower := range started.clients {
		started.running.Go(func() { follower.Run(ctx) })
	}
	return started
}

// setTargets sets the nodes to which the clients connect. Each client starts at a different node.
func (s *followers) setTargets(nodes []*cluster.Node) {
	addrs := cluster.Addrs(nodes)
	for _, follower := range s.clients {
		follower.SetTargets(slices.Clone(addrs))
		addrs = append(addrs[1:], addrs[0])
	}
}

// awaitProgress waits until each client has received another event. It must be called without an
// active fault, because each stream must then continue.
func (s *followers) awaitProgress() {
	before := make([]uint64, len(s.clients))
	for i, follower := range s.clients {
		before[i] = follower.LastEvent()
	}
	cluster.Await(s.sc, "event streams continue", func() error {
		for i, follower := range s.clients {
			if last := follower.LastEvent(); last <= before[i] {
				return fmt.Errorf("the stream of follower %d is stalled at event %d", i, last)
			}
		}
		return nil
	})
}

// collect returns the connections and events since the last call. It adds their request IDs to
// scenario.checkedRequests.
func (s *followers) collect() (all []history.Follower) {
	for _, follower := range s.clients {
		received := follower.TakeConns()
		received.BoundToNode = s.sc.opts.Embedded
		for _, conn := range received.Conns {
			s.sc.checkedRequests[conn.ID] = false
		}
		all = append(all, received)
	}
	return all
}

func (s *followers) close() {
	s.stop()
	s.running.Wait()
}
