package roster

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/consensus"
	"shardway/node/gossip"
)

const foundEvery = 50 * time.Millisecond

// Founder decides which of several fresh nodes founds the cluster: the smallest id
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
type Founder struct {
	o FounderOptions
	// deciding is held by who gives the promise, takes it back, or founds: a place
	// of one, because all three wait for the disk.
	deciding chan struct{}
	// given is the promise; nil until it was read from the disk. What is given again
	// is another one, also to the same node.
	given atomic.Pointer[promise]
}

// FounderOptions is what a Founder is made from.
type FounderOptions struct {
	// Self is the node's id; BootstrapExpect how many nodes found a cluster together, and Joins
	// means that it was told of others.
	Self            string
	BootstrapExpect int
	Joins           bool
	// JoinsOnlyItself returns nil if the node was told of nobody but itself, so that it
	// founds a cluster with BootstrapExpect 1 although Joins is true; nil: it does not.
	JoinsOnlyItself func(context.Context) error
	Dir             Promises
	Raft            Nascent
	Gossip          Gossip
	Nodes           Electors
	// Fail stops the node.
	Fail func(error)
	Log  zerolog.Logger
}

// Promises are kept in the data directory.
type Promises interface {
	Cluster() (id string, shards int)
	Promised() (to string, err error)
	Promise(to string) error
}

// Nascent is Raft before there is a cluster.
type Nascent interface {
	// Fresh and Configuration tell whether there is one.
	Fresh() bool
	Configuration() []consensus.Server
	Bootstrap() error
	Campaign() error
}

// Electors are the other nodes, as a Founder asks them.
type Electors interface {
	// MayFound asks a node whether this one may found the cluster; firm: for its
	// promise.
	MayFound(ctx context.Context, node string, firm bool) (bool, error)
	// Needs asks a node whether it needs the promise that this one gave it.
	Needs(ctx context.Context, node string) (bool, error)
}

// NewFounder returns the Founder of a node.
func NewFounder(o FounderOptions) *Founder {
	return &Founder{o: o, deciding: make(chan struct{}, 1)}
}

// promise says who may found the cluster, "" for nobody.
type promise struct{ to string }

// decide runs f while nobody else decides anything.
func (f *Founder) decide(ctx context.Context, do func() error) error {
	select {
	case f.deciding <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("node: another founder is being answered: %w", ctx.Err())
	}
	defer func() { <-f.deciding }()
	return do()
}

// Promised returns whom this node lets found the cluster, "" for nobody.
func (f *Founder) Promised() (string, error) {
	p, err := f.promised()
	if err != nil {
		return "", err
	}
	return p.to, nil
}

// promised returns the promise that this node has given. It does not wait for who
// decides.
func (f *Founder) promised() (*promise, error) {
	if p := f.given.Load(); p != nil {
		return p, nil
	}
	to, err := f.o.Dir.Promised()
	if err != nil {
		return nil, err
	}
	f.given.CompareAndSwap(nil, &promise{to})
	return f.given.Load(), nil
}

// keep gives the promise to a node, or takes it back; the caller decides.
func (f *Founder) keep(to string) error {
	p, err := f.promised()
	if err == nil && p.to != to {
		err = f.o.Dir.Promise(to)
	}
	if err != nil {
		return err
	}
	f.given.Store(&promise{to})
	return nil
}

// Promise is asked by a node that would found the cluster; firm: now it counts.
func (f *Founder) Promise(ctx context.Context, by string, firm bool) (bool, error) {
	err := f.free(ctx, by)
	if err == nil {
		err = f.decide(ctx, func() error { return f.let(by, firm) })
	}
	return err == nil, err
}

// let gives the promise to a node if it is free for it; the caller decides.
func (f *Founder) let(by string, firm bool) error {
	p, err := f.promised()
	switch {
	case err != nil:
		return err
	case f.Belongs():
		cluster, _ := f.o.Dir.Cluster()
		return fmt.Errorf("node %q belongs to cluster %q already", f.o.Self, cluster)
	case p.to != "" && p.to != by:
		return fmt.Errorf("node %q waits for %q to found the cluster", f.o.Self, p.to)
	case !firm:
		return nil
	}
	return f.keep(by)
}

// free takes back a promise that another node than by has and does not need any
// more.
func (f *Founder) free(ctx context.Context, by string) error {
	p, err := f.promised()
	if err != nil || p.to == "" || p.to == by {
		return err
	}
	switch self := f.o.Self; {
	case p.to == self && by > self:
		return nil // it sees this node before long
	case p.to != self:
		needs, err := f.needs(ctx, p.to)
		if err != nil || needs {
			return err
		}
	}
	return f.decide(ctx, func() error {
		if now, err := f.promised(); err != nil || now != p || f.Belongs() {
			return err
		}
		return f.keep("")
	})
}

// needs asks a node whether it needs the promise that this one gave it.
func (f *Founder) needs(ctx context.Context, to string) (needs bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return f.o.Nodes.Needs(ctx, to)
}

// abdicate takes back the promise to itself of a node that founds nothing: it was
// started with other flags before.
func (f *Founder) abdicate(ctx context.Context) error {
	return f.decide(ctx, func() error {
		if p, err := f.promised(); err != nil || p.to != f.o.Self {
			return err
		}
		return f.keep("")
	})
}

// Needed is asked by a node that has given this one its promise: it is founding
// the cluster, or has.
func (f *Founder) Needed() (bool, error) {
	p, err := f.promised()
	return err == nil && p.to == f.o.Self || f.Belongs(), err
}

// Belongs reports whether this node is part of a cluster, or has a log of one.
func (f *Founder) Belongs() bool {
	cluster, _ := f.o.Dir.Cluster()
	return cluster != "" || !f.o.Raft.Fresh() || len(f.o.Raft.Configuration()) > 0
}

// Run makes a cluster if this node is to, and returns once it belongs to one.
func (f *Founder) Run(ctx context.Context) {
	if f.Belongs() {
		return
	}
	if f.o.BootstrapExpect <= 1 && f.o.Joins { // it waits to be added
		if err := f.abdicate(ctx); err != nil {
			if ctx.Err() == nil {
				f.o.Fail(err)
			}
			return
		}
		if f.o.JoinsOnlyItself != nil {
			f.foundAlone(ctx)
		}
		return
	}
	t := time.NewTicker(foundEvery)
	defer t.Stop()
	for !f.Belongs() {
		founded, err := f.turn(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.o.Fail(err)
			return
		}
		if founded {
			f.founded()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// founded stands for election in the cluster that was founded.
func (f *Founder) founded() {
	f.o.Log.Info().Int("bootstrap_expect", f.o.BootstrapExpect).Msg("cluster founded")
	if err := f.o.Raft.Campaign(); err != nil {
		f.o.Log.Debug().Err(err).Msg("elected only after the timeout")
	}
}

// turn founds the cluster if all that are expected are there and agree that this
// node does.
func (f *Founder) turn(ctx context.Context) (founded bool, err error) {
	if f.o.BootstrapExpect <= 1 {
		return true, f.o.Raft.Bootstrap()
	}
	fresh := f.freshNodes()
	if len(fresh) < f.o.BootstrapExpect || fresh[0] != f.o.Self {
		return false, nil
	}
	if !f.asks(ctx, fresh, false) || !f.asks(ctx, fresh, true) {
		return false, nil
	}
	err = f.decide(ctx, func() error {
		p, bad := f.promised()
		if bad != nil || p.to != f.o.Self || f.Belongs() {
			return bad // it has given way meanwhile
		}
		founded = true
		return f.o.Raft.Bootstrap()
	})
	return founded, err
}

// freshNodes returns the ids of the nodes that are there and expect as many as
// this one does, sorted; none if there is a cluster: then they wait to be added.
func (f *Founder) freshNodes() []string {
	var fresh []string
	for _, m := range f.o.Gossip.Members() {
		if !m.Node || m.Status != gossip.Alive {
			continue
		}
		if m.Tags.Cluster != "" {
			return nil
		}
		if m.Tags.BootstrapExpect == f.o.BootstrapExpect {
			fresh = append(fresh, m.ID)
		}
	}
	slices.Sort(fresh)
	return fresh
}

// asks asks all nodes, this one first, and reports whether all agree.
func (f *Founder) asks(ctx context.Context, nodes []string, firm bool) bool {
	for _, id := range nodes {
		var ok bool
		var err error
		if id == f.o.Self {
			ok, err = f.Promise(ctx, id, firm)
		} else {
			asking, cancel := context.WithTimeout(ctx, 2*time.Second)
			ok, err = f.o.Nodes.MayFound(asking, id, firm)
			cancel()
		}
		if err != nil || !ok {
			f.o.Log.Debug().Err(err).Str("peer", id).Msg("cluster not founded yet")
			return false
		}
	}
	return true
}

// Unborn is what a node knows that belongs to no cluster yet.
type Unborn struct {
	// Adds is the cluster of a node that is there: this one waits to be added to it.
	Adds string
	// Founder is who was about to found the cluster and is gone; empty: nobody.
	Founder string
	// Here are the nodes that are there and expect as many as this one does, ordered.
	Here []string
}

// Unborn tells why the node belongs to no cluster yet.
func (f *Founder) Unborn() (u Unborn) {
	for _, m := range f.o.Gossip.Members() {
		if !m.Node || m.Status != gossip.Alive {
			continue
		}
		if m.Tags.Cluster != "" {
			u.Adds = m.Tags.Cluster
		}
		if m.Tags.BootstrapExpect == f.o.BootstrapExpect {
			u.Here = append(u.Here, m.ID)
		}
	}
	slices.Sort(u.Here)
	if p, err := f.promised(); err == nil && p.to != "" && p.to != f.o.Self && !alive(f.o.Gossip, p.to) {
		u.Founder = p.to
	}
	return u
}
