package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardway/node/gossip"
)

const foundEvery = 50 * time.Millisecond

// founder decides which of several fresh nodes founds the cluster: the smallest id
// of those that expect each other and see each other. It asks all of them whether
// they would let it, then each for its promise, and founds once it has all.
//
// A promise is kept on disk, the founder's own first. It ends with the cluster
// that the node then belongs to, or by the word of the one it was given to that
// this one neither founds nor has founded: whoever is dead may have, a moment
// before, and another cluster would be the second one. A founder that has not got
// all promises yet gives way to a smaller id.
//
// The founder starts alone and adds the others like any newcomer.
type founder struct {
	n  *Node
	mu struct {
		sync.Mutex
		read  bool   // to was read from the disk
		to    string // who has the promise, "" for nobody
		given uint64 // counts the promises given
	}
}

// promised returns to whom this node has given its promise, and a number that
// changes when it gives one.
func (f *founder) promised() (to string, given uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err = f.recall()
	return f.mu.to, f.mu.given, err
}

// recall reads the promise once; f.mu is held.
func (f *founder) recall() (err error) {
	if !f.mu.read {
		if f.mu.to, err = f.n.o.Dir.Promised(); err == nil {
			f.mu.read = true
		}
	}
	return err
}

// keep gives the promise to a node, or takes it back; f.mu is held.
func (f *founder) keep(to string) error {
	f.mu.given++
	if f.mu.to == to {
		return nil
	}
	if err := f.n.o.Dir.Promise(to); err != nil {
		return err
	}
	f.mu.to = to
	return nil
}

// promise is asked by a node that would found the cluster; firm: now it counts.
func (f *founder) promise(ctx context.Context, by string, firm bool) (bool, error) {
	if err := f.free(ctx, by); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.n.belongs():
		cluster, _ := f.n.o.Dir.Cluster()
		return false, fmt.Errorf("node %q belongs to cluster %q already", f.n.self, cluster)
	case f.mu.to != "" && f.mu.to != by:
		return false, fmt.Errorf("node %q waits for %q to found the cluster", f.n.self, f.mu.to)
	case !firm:
		return true, nil
	}
	return true, f.keep(by)
}

// free takes back a promise that another node than by has and does not need any
// more.
func (f *founder) free(ctx context.Context, by string) error {
	to, given, err := f.promised()
	if err != nil || to == "" || to == by {
		return err
	}
	switch self := string(f.n.self); {
	case to == self && by > self:
		return nil // it sees this node before long
	case to != self:
		needs, err := f.needs(ctx, to)
		if err != nil || needs {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.given != given || f.n.belongs() {
		return nil
	}
	return f.keep("")
}

// needs asks a node whether it needs the promise that this one gave it.
func (f *founder) needs(ctx context.Context, to string) (needs bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err = f.n.ask(ctx, to, request{What: askFounder}, &needs)
	return needs, err
}

// abdicate takes back the promise to itself of a node that founds nothing: it was
// started with other flags before.
func (f *founder) abdicate() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.recall(); err != nil || f.mu.to != string(f.n.self) {
		return err
	}
	return f.keep("")
}

// needed is asked by a node that has given this one its promise: it is founding
// the cluster, or has.
func (f *founder) needed() (bool, error) {
	to, _, err := f.promised()
	return to == string(f.n.self) || f.n.belongs(), err
}

// belongs reports whether this node is part of a cluster, or has a log of one.
func (n *Node) belongs() bool {
	cluster, _ := n.o.Dir.Cluster()
	return cluster != "" || !n.raft.Fresh() || len(n.raft.Configuration()) > 0
}

// run makes a cluster if this node is to, and returns once it belongs to one.
func (f *founder) run(ctx context.Context) {
	n := f.n
	if n.belongs() {
		return
	}
	if n.o.Expect <= 1 && len(n.o.Join) > 0 { // it waits to be added
		if err := f.abdicate(); err != nil {
			n.fail(err)
		}
		return
	}
	t := time.NewTicker(foundEvery)
	defer t.Stop()
	for !n.belongs() {
		founded, err := f.turn(ctx)
		if err != nil {
			n.fail(err)
			return
		}
		if founded {
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

// turn founds the cluster if all that are expected are there and agree that this
// node does.
func (f *founder) turn(ctx context.Context) (founded bool, err error) {
	n := f.n
	if n.o.Expect <= 1 {
		return true, n.raft.Bootstrap()
	}
	fresh := n.freshNodes()
	if len(fresh) < n.o.Expect || fresh[0] != string(n.self) {
		return false, nil
	}
	if !f.asks(ctx, fresh, false) || !f.asks(ctx, fresh, true) {
		return false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.to != string(n.self) || n.belongs() {
		return false, nil // it has given way meanwhile
	}
	return true, n.raft.Bootstrap()
}

// freshNodes returns the ids of the nodes that are there and expect as many as
// this one does, sorted; none if there is a cluster: then they wait to be added.
func (n *Node) freshNodes() []string {
	var fresh []string
	for _, m := range n.gossip.Members() {
		if !m.Node || m.Status != gossip.Alive {
			continue
		}
		if m.Tags.Cluster != "" {
			return nil
		}
		if m.Tags.Expect == n.o.Expect {
			fresh = append(fresh, m.ID)
		}
	}
	slices.Sort(fresh)
	return fresh
}

// asks asks all nodes, this one first, and reports whether all agree.
func (f *founder) asks(ctx context.Context, nodes []string, firm bool) bool {
	n := f.n
	for _, id := range nodes {
		var ok bool
		var err error
		if id == string(n.self) {
			ok, err = f.promise(ctx, id, firm)
		} else {
			asking, cancel := context.WithTimeout(ctx, 2*time.Second)
			err = n.ask(asking, id, request{What: askFound, Firm: firm}, &ok)
			cancel()
		}
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
	if to, _, err := n.founder.promised(); err == nil && to != "" && to != string(n.self) && !n.alive(to) {
		return fmt.Sprintf("node %q was about to found the cluster and is gone: start it again; if its data directory is lost, start one under that name (--node %s)", to, to)
	}
	if n.o.Expect > 1 {
		return fmt.Sprintf("%d of %d nodes with --expect %d are here", here, n.o.Expect, n.o.Expect)
	}
	if len(n.o.Join) > 0 {
		return "nobody here belongs to a cluster or founds one: start one node without --join, or all of them with --expect and their number"
	}
	return "founding a cluster"
}
