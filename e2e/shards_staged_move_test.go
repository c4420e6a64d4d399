//go:build linux

package e2e_test

import (
	"fmt"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// hangingRequests has one hanging request per key at the app of a node.
type hangingRequests struct {
	gate     string
	owner    *cluster.Node
	keys     []string
	requests []*cluster.AsyncRequest
}

// hangRequests sends a request for each key to its owner, and waits until the app runs all of
// them.
func hangRequests(t *testing.T, c *cluster.Cluster, owner *cluster.Node, gate string, keys ...string) *hangingRequests {
	t.Helper()
	s := &hangingRequests{gate: gate, owner: owner, keys: keys}
	for _, key := range keys {
		s.requests = append(s.requests, c.SendAsync(t, owner, load.Request{Key: key, Header: map[string]string{"App-Hang": gate}}))
	}
	owner.App.AwaitHanging(t, gate, len(keys))
	return s
}

// wantStaged waits until left accepts the map, while the slow requests run. All given
// nodes serve requests for other keys.
func (s *hangingRequests) wantStaged(t *testing.T, c *cluster.Cluster, what string, by []*cluster.Node, left func(cluster.Map) error) {
	t.Helper()
	var shardMap cluster.Map
	cluster.Await(t, what+" moves idle shards", func() (err error) {
		if shardMap, err = by[0].Map(t.Context()); err != nil {
			return err
		}
		return left(shardMap)
	})
	for i, request := range s.requests {
		if !request.Pending() {
			t.Errorf("%s: the request for %s has ended: %+v", what, s.keys[i], request.Response(t))
		}
		if got := shardMap.OwnerOf(s.keys[i]); got != s.owner.ID {
			t.Errorf("%s: the shard of %s went to %s while a request runs", what, s.keys[i], got)
		}
	}
	for i, node := range by {
		key := fmt.Sprintf("other-%s-%d", what, i)
		for i := 0; shardMap.OwnerOf(key) == s.owner.ID; i++ {
			key = fmt.Sprintf("other-%s-%d", what, i)
		}
		if resp := c.SendAsync(t, node, load.Request{Key: key}).Response(t); !resp.OK() {
			t.Errorf("%s: another key at %s: %d %s", what, node.ID, resp.Status, resp.Error)
		}
	}
}

// end ends the slow requests, and checks their responses.
func (s *hangingRequests) end(t *testing.T, what string) {
	t.Helper()
	s.owner.App.Release(t, s.gate)
	for i, request := range s.requests {
		if resp := request.Response(t); !resp.OK() {
			t.Errorf("%s: the request for %s: %d %s", what, s.keys[i], resp.Status, resp.Error)
		}
	}
}

// wantOwnedCount returns a check that a node owns this number of shards.
func wantOwnedCount(id string, n int) func(cluster.Map) error {
	return func(shardMap cluster.Map) error {
		if got := shardMap.Counts()[id]; got != n {
			return fmt.Errorf("%s owns %d shards, want %d", id, got, n)
		}
		return nil
	}
}

// TestSlowRequestDelaysOnlyItsShard runs a slow request at a node whose shards move by
// plan: drain, uncordon, SIGTERM and join. All other shards move while it runs, within a
// drain timeout that is longer than this test. The last shard moves after it has ended.
func TestSlowRequestDelaysOnlyItsShard(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3, "--drain-timeout", "2m", "--shutdown-timeout", "5m")
	node := c.Follower(t)
	others := c.Others(node)

	before := c.AwaitServing(t)
	s := hangRequests(t, c, node, "drain", before.Keys(node.ID, 1)[0])
	others[0].PerformAction(t, "drain", map[string][]string{"node": {node.ID}})
	s.wantStaged(t, c, "drain", append(others, node), wantOwnedCount(node.ID, 1))
	s.end(t, "drain")
	without := c.AwaitShards(t, others...)
	cluster.Await(t, "moves are counted", func() error {
		m, err := node.Metrics(t.Context())
		if err != nil {
			return err
		}
		for stage, want := range map[string]int{"idle": before.Counts()[node.ID] - 1, "finished": 1, "aborted": 0} {
			if got := m.Sum("shardway_handed_over_shards_total", fmt.Sprintf("stage=%q", stage)); got != float64(want) {
				return fmt.Errorf("%v shards moved %s, want %d", got, stage, want)
			}
		}
		return nil
	})

	var back string // a shard of n that returns to n, at another node
	for _, key := range before.Keys(node.ID, 1) {
		if without.OwnerOf(key) == others[0].ID {
			back = key
		}
	}
	s = hangRequests(t, c, others[0], "uncordon", back)
	others[1].PerformAction(t, "uncordon", map[string][]string{"node": {node.ID}})
	s.wantStaged(t, c, "uncordon", append(others, node), wantOwnedCount(node.ID, before.Counts()[node.ID]-1))
	s.end(t, "uncordon")
	whole := c.AwaitServing(t)

	s = hangRequests(t, c, node, "stop", whole.Keys(node.ID, 1)[0])
	node.Terminate(t)
	s.wantStaged(t, c, "stop", others, wantOwnedCount(node.ID, 1))
	s.end(t, "stop")
	node.AwaitExit(t, 0)
	two := c.AwaitServing(t)

	busy := two.Keys(others[0].ID, 1)[:8]
	s = hangRequests(t, c, others[0], "join", busy...)
	node.Start(t)
	s.wantStaged(t, c, "join", others, func(shardMap cluster.Map) error {
		if shardMap.Counts()[node.ID] < shards/3-len(busy) {
			return fmt.Errorf("%s owns %d shards", node.ID, shardMap.Counts()[node.ID])
		}
		return nil
	})
	s.end(t, "join")
	c.AwaitServing(t)
}

// TestSlowRequestDelaysOnlyItsShardInPolicyChanges does the same for a pin, a weight, and
// the end of a cordon and of a pause, after which shards move to a node that has joined
// in the meantime.
func TestSlowRequestDelaysOnlyItsShardInPolicyChanges(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3, "--drain-timeout", "2m", "--shutdown-timeout", "5m")
	n := c.Follower(t)
	others := c.Others(n)
	to := others[0]

	before := c.AwaitServing(t)
	keys := before.Keys(n.ID, 1)[:2]
	s := hangRequests(t, c, n, "pin", keys[0])
	for _, key := range keys {
		to.PerformAction(t, "pin", map[string][]string{"key": {key}, "node": {to.ID}})
	}
	s.wantStaged(t, c, "pin", append(others, n), func(shardMap cluster.Map) error {
		if got := shardMap.OwnerOf(keys[1]); got != to.ID {
			return fmt.Errorf("the shard of %s is at %s", keys[1], got)
		}
		return nil
	})
	s.end(t, "pin")
	cluster.Await(t, "the busy shard is where it is pinned to", func() error {
		shardMap, err := n.Map(t.Context())
		if err == nil && shardMap.OwnerOf(keys[0]) != to.ID {
			err = fmt.Errorf("it is at %s", shardMap.OwnerOf(keys[0]))
		}
		return err
	})

	busy := c.AwaitServing(t).Keys(n.ID, 1)[:8]
	s = hangRequests(t, c, n, "weight", busy...)
	for _, o := range others {
		o.PerformAction(t, "weight", map[string][]string{"node": {o.ID}, "weight": {"3"}})
	}
	fair := shards/7 + 1
	s.wantStaged(t, c, "weight", append(others, n), func(shardMap cluster.Map) error {
		if got := shardMap.Counts()[n.ID]; got > fair+len(busy) {
			return fmt.Errorf("%s owns %d shards", n.ID, got)
		}
		return nil
	})
	s.end(t, "weight")
	cluster.Await(t, "busy shards have moved", func() error {
		shardMap, err := n.Map(t.Context())
		if err == nil && shardMap.Counts()[n.ID] > fair {
			err = fmt.Errorf("%s owns %d shards", n.ID, shardMap.Counts()[n.ID])
		}
		return err
	})
	for _, o := range others {
		o.PerformAction(t, "weight", map[string][]string{"node": {o.ID}, "weight": {"0"}})
	}
	for _, key := range keys {
		to.PerformAction(t, "unpin", map[string][]string{"key": {key}})
	}
	c.AwaitServing(t)

	for _, change := range []struct {
		name  string
		begin string
		begun map[string][]string // the arguments of begin
		end   string
		ended map[string][]string // the arguments of end
	}{
		{"cordon", "cordon", map[string][]string{"node": {n.ID}}, "uncordon", map[string][]string{"node": {n.ID}}},
		{"pause", "pause", map[string][]string{"for": {"1h"}}, "resume", nil},
	} {
		n.Terminate(t)
		n.AwaitExit(t, 0)
		two := c.AwaitServing(t)
		to.PerformAction(t, change.begin, change.begun)
		n.Start(t)
		cluster.Await(t, "a newcomer without shards", func() error {
			status, err := to.Status(t.Context())
			if err != nil {
				return err
			}
			for _, x := range status.Nodes {
				if x.ID == n.ID && (x.State == "active" || x.State == "cordoned") && x.Shards == 0 {
					return nil
				}
			}
			return fmt.Errorf("%+v", status.Nodes)
		})
		busy = two.Keys(to.ID, 1)[:8]
		s = hangRequests(t, c, to, change.name, busy...)
		to.PerformAction(t, change.end, change.ended)
		s.wantStaged(t, c, change.end, others, func(shardMap cluster.Map) error {
			if got := shardMap.Counts()[n.ID]; got < shards/3-len(busy) {
				return fmt.Errorf("%s owns %d shards", n.ID, got)
			}
			return nil
		})
		s.end(t, change.end)
		c.AwaitServing(t)
	}
}
