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

// eventsEvery is how far the events of a stream are apart. Of each half of that passes before
// it is whole.
const eventsEvery = 80 * time.Millisecond

// following are clients that follow event streams, which any app can go on with, through
// all that a run has: each a key of its own, for as long as the cluster lives. They come
// back by themselves when they are cut, at the next node.
type following struct {
	w       *world
	list    []*load.Follower
	stop    context.CancelFunc
	running sync.WaitGroup
}

// follow has some clients begin.
func follow(w *world, n int) *following {
	ctx, stop := context.WithCancel(context.Background())
	s := &following{w: w, stop: stop}
	for i, key := range load.FreshKeysIn("follow", w.o.Shards, 1, func(int) bool { return true })[:n] {
		s.list = append(s.list, load.NewFollower(fmt.Sprint("follower", i), key, eventsEvery))
	}
	s.aim(w.members)
	for _, f := range s.list {
		s.running.Go(func() { f.Run(ctx) })
	}
	return s
}

// aim has them come back to these nodes, each to another one first.
func (s *following) aim(at []*cluster.Node) {
	addrs := cluster.Addrs(at)
	for _, f := range s.list {
		f.SetTargets(slices.Clone(addrs))
		addrs = append(addrs[1:], addrs[0])
	}
}

// goOn waits until another event has come to each: nothing is hurt any more, so none may
// hang.
func (s *following) goOn() {
	from := make([]uint64, len(s.list))
	for i, f := range s.list {
		from[i] = f.Last()
	}
	cluster.Await(s.w, "event streams go on", func() error {
		for i, f := range s.list {
			if last := f.Last(); last <= from[i] {
				return fmt.Errorf("the stream of follower %d stands at event %d", i, last)
			}
		}
		return nil
	})
}

// take is what came since it was called before. The world knows its requests from then on.
func (s *following) take() (all []history.Follower) {
	for _, f := range s.list {
		came := f.Take()
		came.Bound = s.w.o.Embedded
		for _, c := range came.Follows {
			s.w.known[c.ID] = false
		}
		all = append(all, came)
	}
	return all
}

func (s *following) close() {
	s.stop()
	s.running.Wait()
}
