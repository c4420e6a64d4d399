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

const bootstrapInterval = 50 * time.Millisecond

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
type Bootstrapper struct {
	o BootstrapperOptions
	// deciding is held by who gives the promise, takes it back, or founds: a place
	// of one, because all three wait for the disk.
	lock chan struct{}
	// given is the promise; nil until it was read from the disk. What is given again
	// is another one, also to the same node.
	current atomic.Pointer[promise]
}

// FounderOptions is what a Founder is made from.
type BootstrapperOptions struct {
	// Self is the node's id; BootstrapExpect how many nodes found a cluster together, and Joins
	// means that it was told of others.
	Self            string
	BootstrapExpect int
	Joins           bool
	// JoinsOnlyItself returns nil if the node was told of nobody but itself, so that it
	// founds a cluster with BootstrapExpect 1 although Joins is true; nil: it does not.
	JoinsOnlyItself func(context.Context) error
	Dir             PromiseStore
	Raft            BootstrapRaft
	Gossip          Gossip
	Nodes           BootstrapPeers
	// Fail stops the node.
	Fail func(error)
	Log  zerolog.Logger
}

// Promises are kept in the data directory.
type PromiseStore interface {
	Cluster() (id string, shards int)
	Promised() (to string, err error)
	Promise(to string) error
}

// Nascent is Raft before there is a cluster.
type BootstrapRaft interface {
	// Fresh and Configuration tell whether there is one.
	Fresh() bool
	Configuration() []consensus.Server
	Bootstrap() error
	Campaign() error
}

// Electors are the other nodes, as a Founder asks them.
type BootstrapPeers interface {
	// MayFound asks a node whether this one may found the cluster; firm: for its
	// promise.
	RequestPromise(ctx context.Context, node string, firm bool) (bool, error)
	// Needs asks a node whether it needs the promise that this one gave it.
	NeedsPromise(ctx context.Context, node string) (bool, error)
}

// NewFounder returns the Founder of a node.
func NewBootstrapper(o BootstrapperOptions) *Bootstrapper {
	return &Bootstrapper{o: o, lock: make(chan struct{}, 1)}
}

// promise says who may found the cluster, "" for nobody.
type promise struct{ to string }

// decide runs f while nobody else decides anything.
func (b *Bootstrapper) withLock(ctx context.Context, do func() error) error {
	select {
	case b.lock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("node: another founder is being answered: %w", ctx.Err())
	}
	defer func() { <-b.lock }()
	return do()
}

// Promised returns whom this node lets found the cluster, "" for nobody.
func (b *Bootstrapper) PromisedTo() (string, error) {
	p, err := b.currentPromise()
	if err != nil {
		return "", err
	}
	return p.to, nil
}

// promised returns the promise that this node has given. It does not wait for who
// decides.
func (b *Bootstrapper) currentPromise() (*promise, error) {
	if p := b.current.Load(); p != nil {
		return p, nil
	}
	to, err := b.o.Dir.Promised()
	if err != nil {
		return nil, err
	}
	b.current.CompareAndSwap(nil, &promise{to})
	return b.current.Load(), nil
}

// keep gives the promise to a node, or takes it back; the caller decides.
func (b *Bootstrapper) storePromise(to string) error {
	p, err := b.currentPromise()
	if err == nil && p.to != to {
		err = b.o.Dir.Promise(to)
	}
	if err != nil {
		return err
	}
	b.current.Store(&promise{to})
	return nil
}

// Promise is asked by a node that would found the cluster; firm: now it counts.
func (b *Bootstrapper) HandlePromise(ctx context.Context, by string, binding bool) (bool, error) {
	err := b.releaseStale(ctx, by)
	if err == nil {
		err = b.withLock(ctx, func() error { return b.grant(by, binding) })
	}
	return err == nil, err
}

// let gives the promise to a node if it is free for it; the caller decides.
func (b *Bootstrapper) grant(by string, binding bool) error {
	p, err := b.currentPromise()
	switch {
	case err != nil:
		return err
	case b.BelongsToCluster():
		cluster, _ := b.o.Dir.Cluster()
		return fmt.Errorf("node %q belongs to cluster %q already", b.o.Self, cluster)
	case p.to != "" && p.to != by:
		return fmt.Errorf("node %q waits for %q to found the cluster", b.o.Self, p.to)
	case !binding:
		return nil
	}
	return b.storePromise(by)
}

// free takes back a promise that another node than by has and does not need any
// more.
func (b *Bootstrapper) releaseStale(ctx context.Context, by string) error {
	p, err := b.currentPromise()
	if err != nil || p.to == "" || p.to == by {
		return err
	}
	switch self := b.o.Self; {
	case p.to == self && by > self:
		return nil // it sees this node before long
	case p.to != self:
		needs, err := b.isNeededBy(ctx, p.to)
		if err != nil || needs {
			return err
		}
	}
	return b.withLock(ctx, func() error {
		if now, err := b.currentPromise(); err != nil || now != p || b.BelongsToCluster() {
			return err
		}
		return b.storePromise("")
	})
}

// needs asks a node whether it needs the promise that this one gave it.
func (b *Bootstrapper) isNeededBy(ctx context.Context, to string) (needs bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return b.o.Nodes.NeedsPromise(ctx, to)
}

// abdicate takes back the promise to itself of a node that founds nothing: it was
// started with other flags before.
func (b *Bootstrapper) withdrawOwn(ctx context.Context) error {
	return b.withLock(ctx, func() error {
		if p, err := b.currentPromise(); err != nil || p.to != b.o.Self {
			return err
		}
		return b.storePromise("")
	})
}

// Needed is asked by a node that has given this one its promise: it is founding
// the cluster, or has.
func (b *Bootstrapper) HandleNeeds() (bool, error) {
	p, err := b.currentPromise()
	return err == nil && p.to == b.o.Self || b.BelongsToCluster(), err
}

// Belongs reports whether this node is part of a cluster, or has a log of one.
func (b *Bootstrapper) BelongsToCluster() bool {
	cluster, _ := b.o.Dir.Cluster()
	return cluster != "" || !b.o.Raft.Fresh() || len(b.o.Raft.Configuration()) > 0
}

// Run makes a cluster if this node is to, and returns once it belongs to one.
func (b *Bootstrapper) Run(ctx context.Context) {
	if b.BelongsToCluster() {
		return
	}
	if b.o.BootstrapExpect <= 1 && b.o.Joins { // it waits to be added
		if err := b.withdrawOwn(ctx); err != nil {
			if ctx.Err() == nil {
				b.o.Fail(err)
			}
			return
		}
		if b.o.JoinsOnlyItself != nil {
			b.runAlone(ctx)
		}
		return
	}
	t := time.NewTicker(bootstrapInterval)
	defer t.Stop()
	for !b.BelongsToCluster() {
		founded, err := b.tryBootstrap(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.o.Fail(err)
			return
		}
		if founded {
			b.campaign()
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
func (b *Bootstrapper) campaign() {
	b.o.Log.Info().Int("bootstrap_expect", b.o.BootstrapExpect).Msg("cluster founded")
	if err := b.o.Raft.Campaign(); err != nil {
		b.o.Log.Debug().Err(err).Msg("elected only after the timeout")
	}
}

// turn founds the cluster if all that are expected are there and agree that this
// node does.
func (b *Bootstrapper) tryBootstrap(ctx context.Context) (founded bool, err error) {
	if b.o.BootstrapExpect <= 1 {
		return true, b.o.Raft.Bootstrap()
	}
	nodes := b.eligibleNodes()
	if len(nodes) < b.o.BootstrapExpect || nodes[0] != b.o.Self {
		return false, nil
	}
	if !b.allAgree(ctx, nodes, false) || !b.allAgree(ctx, nodes, true) {
		return false, nil
	}
	err = b.withLock(ctx, func() error {
		p, getErr := b.currentPromise()
		if getErr != nil || p.to != b.o.Self || b.BelongsToCluster() {
			return getErr // it has given way meanwhile
		}
		founded = true
		return b.o.Raft.Bootstrap()
	})
	return founded, err
}

// freshNodes returns the ids of the nodes that are there and expect as many as
// this one does, sorted; none if there is a cluster: then they wait to be added.
func (b *Bootstrapper) eligibleNodes() []string {
	var nodes []string
	for _, m := range b.o.Gossip.Members() {
		if !m.Node || m.Status != gossip.Alive {
			continue
		}
		if m.Tags.Cluster != "" {
			return nil
		}
		if m.Tags.BootstrapExpect == b.o.BootstrapExpect {
			nodes = append(nodes, m.ID)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// asks asks all nodes, this one first, and reports whether all agree.
func (b *Bootstrapper) allAgree(ctx context.Context, nodes []string, binding bool) bool {
	for _, id := range nodes {
		var ok bool
		var err error
		if id == b.o.Self {
			ok, err = b.HandlePromise(ctx, id, binding)
		} else {
			callCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
			ok, err = b.o.Nodes.RequestPromise(callCtx, id, binding)
			cancel()
		}
		if err != nil || !ok {
			b.o.Log.Debug().Err(err).Str("peer", id).Msg("cluster not founded yet")
			return false
		}
	}
	return true
}

// Unborn is what a node knows that belongs to no cluster yet.
type BootstrapStatus struct {
	// Adds is the cluster of a node that is there: this one waits to be added to it.
	ClusterToJoin string
	// Founder is who was about to found the cluster and is gone; empty: nobody.
	MissingBootstrapper string
	// Here are the nodes that are there and expect as many as this one does, ordered.
	Peers []string
}

// Unborn tells why the node belongs to no cluster yet.
func (b *Bootstrapper) Status() (u BootstrapStatus) {
	for _, m := range b.o.Gossip.Members() {
		if !m.Node || m.Status != gossip.Alive {
			continue
		}
		if m.Tags.Cluster != "" {
			u.ClusterToJoin = m.Tags.Cluster
		}
		if m.Tags.BootstrapExpect == b.o.BootstrapExpect {
			u.Peers = append(u.Peers, m.ID)
		}
	}
	slices.Sort(u.Peers)
	if p, err := b.currentPromise(); err == nil && p.to != "" && p.to != b.o.Self && !isAlive(b.o.Gossip, p.to) {
		u.MissingBootstrapper = p.to
	}
	return u
}
