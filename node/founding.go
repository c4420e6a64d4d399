package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardway/node/gossip"
)

const (
	foundEvery = 50 * time.Millisecond
	// promiseFor is how long a fresh node keeps to one founder.
	promiseFor = 5 * time.Second
)

// founder decides which of several fresh nodes founds the cluster. The smallest
// id of those that expect each other asks all of them; each promises itself to
// one asker at a time and to none once it belongs to a cluster. The founder
// starts alone and adds the others like any newcomer, so nothing is left to
// undo if it dies half way.
type founder struct {
	n  *Node
	mu struct {
		sync.Mutex
		to    string
		until time.Time
	}
}

// promise is asked by another node that would found the cluster.
func (f *founder) promise(by string) (bool, error) {
	if f.n.belongs() {
		cluster, _ := f.n.o.Dir.Cluster()
		return false, fmt.Errorf("node %q belongs to cluster %q already", f.n.self, cluster)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.mu.to != by && now.Before(f.mu.until) {
		return false, fmt.Errorf("node %q waits for %q to found the cluster", f.n.self, f.mu.to)
	}
	f.mu.to, f.mu.until = by, now.Add(promiseFor)
	return true, nil
}

// belongs reports whether this node is part of a cluster, or has a log of one.
func (n *Node) belongs() bool {
	cluster, _ := n.o.Dir.Cluster()
	return cluster != "" || !n.raft.Fresh() || len(n.raft.Configuration()) > 0
}

// found makes a cluster if this node is to, and returns once it belongs to one.
func (f *founder) run(ctx context.Context) {
	n := f.n
	if n.belongs() || n.o.Expect <= 1 && len(n.o.Join) > 0 {
		return // it waits to be added, if it has to
	}
	t := time.NewTicker(foundEvery)
	defer t.Stop()
	for !n.belongs() {
		if f.turn(ctx) {
			if err := n.raft.Bootstrap(); err != nil {
				n.fail(err)
				return
			}
			n.log.Info().Int("expect", n.o.Expect).Msg("cluster founded")
			if err := n.raft.Campaign(); err != nil {
				n.log.Debug().Err(err).Msg("elected only after the timeout")
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// turn reports whether all that are expected are there and agree that this node
// founds the cluster.
func (f *founder) turn(ctx context.Context) bool {
	n := f.n
	if n.o.Expect <= 1 {
		return true
	}
	var fresh []string
	for _, m := range n.gossip.Members() {
		if !m.Node || m.Status != gossip.Alive {
			continue
		}
		if m.Tags.Cluster != "" {
			return false // there is a cluster: wait to be added
		}
		if m.Tags.Expect == n.o.Expect {
			fresh = append(fresh, m.ID)
		}
	}
	slices.Sort(fresh)
	if len(fresh) < n.o.Expect || fresh[0] != string(n.self) {
		return false
	}
	if ok, _ := f.promise(string(n.self)); !ok {
		return false
	}
	for _, id := range fresh[1:] {
		var ok bool
		asking, cancel := context.WithTimeout(ctx, time.Second)
		err := n.ask(asking, id, request{What: askFound}, &ok)
		cancel()
		if err != nil || !ok {
			n.log.Debug().Err(err).Str("peer", id).Msg("cluster not founded yet")
			return false
		}
	}
	return true
}

// unborn says why there is no shard map yet, and what to do about it if nothing
// will change by itself.
func (n *Node) unborn() string {
	if n.belongs() {
		if n.raft.Leader() == "" {
			return "no leader: " + n.leaderless()
		}
		return "waiting for the leader's first map"
	}
	here := 0
	for _, m := range n.gossip.Members() {
		if !m.Node || m.Status != gossip.Alive {
			continue
		}
		if m.Tags.Cluster != "" {
			return "waiting to be added to cluster " + m.Tags.Cluster
		}
		if m.Tags.Expect == n.o.Expect {
			here++
		}
	}
	if n.o.Expect > 1 {
		return fmt.Sprintf("%d of %d nodes with --expect %d are here", here, n.o.Expect, n.o.Expect)
	}
	if len(n.o.Join) > 0 {
		return "nobody here belongs to a cluster or founds one: start one node without --join, or all of them with --expect and their number"
	}
	return "founding a cluster"
}
