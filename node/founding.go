package node

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
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
	n *Node
	// deciding is held by who gives the promise, takes it back, or founds: a place
	// of one, because all three wait for the disk.
	deciding chan struct{}
	// given is the promise; nil until it was read from the disk. What is given again
	// is another one, also to the same node.
	given atomic.Pointer[promise]
}

// promise says who may found the cluster, "" for nobody.
type promise struct{ to string }

func newFounder(n *Node) *founder { return &founder{n: n, deciding: make(chan struct{}, 1)} }

// decide runs f while nobody else decides anything.
func (f *founder) decide(ctx context.Context, do func() error) error {
	select {
	case f.deciding <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("node: another founder is being answered: %w", ctx.Err())
	}
	defer func() { <-f.deciding }()
	return do()
}

// promised returns the promise that this node has given. It does not wait for who
// decides.
func (f *founder) promised() (*promise, error) {
	if p := f.given.Load(); p != nil {
		return p, nil
	}
	to, err := f.n.o.Dir.Promised()
	if err != nil {
		return nil, err
	}
	f.given.CompareAndSwap(nil, &promise{to})
	return f.given.Load(), nil
}

// keep gives the promise to a node, or takes it back; the caller decides.
func (f *founder) keep(to string) error {
	p, err := f.promised()
	if err == nil && p.to != to {
		err = f.n.o.Dir.Promise(to)
	}
	if err != nil {
		return err
	}
	f.given.Store(&promise{to})
	return nil
}

// promise is asked by a node that would found the cluster; firm: now it counts.
func (f *founder) promise(ctx context.Context, by string, firm bool) (bool, error) {
	err := f.free(ctx, by)
	if err == nil {
		err = f.decide(ctx, func() error { return f.let(by, firm) })
	}
	return err == nil, err
}

// let gives the promise to a node if it is free for it; the caller decides.
func (f *founder) let(by string, firm bool) error {
	p, err := f.promised()
	switch {
	case err != nil:
		return err
	case f.n.belongs():
		cluster, _ := f.n.o.Dir.Cluster()
		return fmt.Errorf("node %q belongs to cluster %q already", f.n.self, cluster)
	case p.to != "" && p.to != by:
		return fmt.Errorf("node %q waits for %q to found the cluster", f.n.self, p.to)
	case !firm:
		return nil
	}
	return f.keep(by)
}

// free takes back a promise that another node than by has and does not need any
// more.
func (f *founder) free(ctx context.Context, by string) error {
	p, err := f.promised()
	if err != nil || p.to == "" || p.to == by {
		return err
	}
	switch self := string(f.n.self); {
	case p.to == self && by > self:
		return nil // it sees this node before long
	case p.to != self:
		needs, err := f.needs(ctx, p.to)
		if err != nil || needs {
			return err
		}
	}
	return f.decide(ctx, func() error {
		if now, err := f.promised(); err != nil || now != p || f.n.belongs() {
			return err
		}
		return f.keep("")
	})
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
func (f *founder) abdicate(ctx context.Context) error {
	return f.decide(ctx, func() error {
		if p, err := f.promised(); err != nil || p.to != string(f.n.self) {
			return err
		}
		return f.keep("")
	})
}

// needed is asked by a node that has given this one its promise: it is founding
// the cluster, or has.
func (f *founder) needed() (bool, error) {
	p, err := f.promised()
	return err == nil && p.to == string(f.n.self) || f.n.belongs(), err
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
		if err := f.abdicate(ctx); err != nil && ctx.Err() == nil {
			n.fail(err)
		}
		return
	}
	t := time.NewTicker(foundEvery)
	defer t.Stop()
	for !n.belongs() {
		founded, err := f.turn(ctx)
		if ctx.Err() != nil {
			return
		}
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
	err = f.decide(ctx, func() error {
		p, bad := f.promised()
		if bad != nil || p.to != string(n.self) || n.belongs() {
			return bad // it has given way meanwhile
		}
		founded = true
		return n.raft.Bootstrap()
	})
	return founded, err
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
	if p, err := n.founder.promised(); err == nil && p.to != "" && p.to != string(n.self) && !n.alive(p.to) {
		to := p.to
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
