package membership

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

// bootstrapInterval is the interval between two attempts to bootstrap.
const bootstrapInterval = 50 * time.Millisecond

// Bootstrapper decides which of several new nodes bootstraps the cluster: the node with the
// smallest ID among the nodes that expect the same number of nodes and see each other. It first
// asks all of these nodes whether they agree, then requests a promise from each. It bootstraps
// once it has all promises.
//
// A promise is stored on disk; a bootstrapper stores the promise to itself first. A promise ends
// when the node belongs to a cluster, or when the node that received it reports that it neither
// bootstraps nor has bootstrapped a cluster. A promise to a dead node remains, because this node
// may have bootstrapped right before it died; a second cluster must not exist. A bootstrapper
// without all promises withdraws in favour of a smaller ID.
//
// The bootstrapper starts with a cluster of one and adds the other nodes as it adds any new node.
type Bootstrapper struct {
	o BootstrapperOptions
	// lock has capacity 1. The goroutine that has sent an element may change the promise or
	// bootstrap. It is not a mutex because these operations wait for the disk, so waiting for the lock
	// must end with a context.
	lock chan struct{}
	// current is the current promise, or nil before it was read from the disk. Each promise has its
	// own address, also if it is given to the same node again.
	current atomic.Pointer[promise]
}

// BootstrapperOptions configure a Bootstrapper.
type BootstrapperOptions struct {
	// Self is the ID of the node. BootstrapExpect is the number of nodes that bootstrap a cluster
	// together. Joins is true if join addresses are configured.
	Self            string
	BootstrapExpect int
	Joins           bool
	// JoinsOnlyItself returns nil if all join addresses are addresses of this node. The node then
	// bootstraps a cluster with BootstrapExpect 1 although Joins is true. A nil function means that it
	// never does.
	JoinsOnlyItself func(context.Context) error
	Dir             PromiseStore
	Raft            BootstrapRaft
	Gossip          Gossip
	Nodes           BootstrapPeers
	// Fail stops the node.
	Fail func(error)
	Log  zerolog.Logger
}

// PromiseStore is the data directory, which stores the promise.
type PromiseStore interface {
	// Cluster returns the cluster of the node; id is empty if it has none.
	Cluster() (id string, shards int)
	// Promised returns the node that has the promise, or "".
	Promised() (to string, err error)
	// Promise stores the promise to a node; "" deletes it.
	Promise(to string) error
}

// BootstrapRaft is Raft before the node belongs to a cluster.
type BootstrapRaft interface {
	// StartedEmpty reports whether the log is empty. Configuration returns the servers of the cluster, if the
	// node belongs to one.
	StartedEmpty() bool
	Configuration() []consensus.Server
	Bootstrap() error
	Campaign() error
}

// BootstrapPeers sends requests of a Bootstrapper to other nodes.
type BootstrapPeers interface {
	// RequestPromise asks a node whether it lets this node bootstrap the cluster. If binding is set, it
	// requests the promise.
	RequestPromise(ctx context.Context, node string, binding bool) (bool, error)
	// NeedsPromise asks a node whether it still needs the promise that this node has given to it.
	NeedsPromise(ctx context.Context, node string) (bool, error)
}

// NewBootstrapper returns the Bootstrapper of a node.
func NewBootstrapper(o BootstrapperOptions) *Bootstrapper {
	return &Bootstrapper{o: o, lock: make(chan struct{}, 1)}
}

// promise names the node that may bootstrap the cluster; "" means that no promise is given.
type promise struct{ to string }

// withLock calls do while it holds the lock.
func (b *Bootstrapper) withLock(ctx context.Context, do func() error) error {
	select {
	case b.lock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("membership: another promise is being decided: %w", ctx.Err())
	}
	defer func() { <-b.lock }()
	return do()
}

// PromisedTo returns the node that has the promise of this node, or "".
func (b *Bootstrapper) PromisedTo() (string, error) {
	p, err := b.currentPromise()
	if err != nil {
		return "", err
	}
	return p.to, nil
}

// currentPromise returns the promise of this node. It does not wait for the lock.
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

// storePromise gives the promise to a node, or withdraws it if to is empty. The caller must hold
// the lock.
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

// HandlePromise handles the request of the node by, which wants to bootstrap the cluster. It
// reports whether this node agrees. If binding is set, it gives the promise.
func (b *Bootstrapper) HandlePromise(ctx context.Context, by string, binding bool) (bool, error) {
	err := b.releaseStale(ctx, by)
	if err == nil {
		err = b.withLock(ctx, func() error { return b.grant(by, binding) })
	}
	return err == nil, err
}

// grant agrees to a request if no other node has the promise, and gives the promise if binding is
// set. The caller must hold the lock.
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

// releaseStale withdraws the promise to another node than by if that node no longer needs it.
func (b *Bootstrapper) releaseStale(ctx context.Context, by string) error {
	p, err := b.currentPromise()
	if err != nil || p.to == "" || p.to == by {
		return err
	}
	switch self := b.o.Self; {
	case p.to == self && by > self:
		return nil // by will see this node soon, and agree to it
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

// isNeededBy asks a node whether it still needs the promise of this node.
func (b *Bootstrapper) isNeededBy(ctx context.Context, to string) (needs bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return b.o.Nodes.NeedsPromise(ctx, to)
}

// withdrawOwn withdraws the promise of this node to itself. It is for a node that does not
// bootstrap, but was started with other flags before.
func (b *Bootstrapper) withdrawOwn(ctx context.Context) error {
	return b.withLock(ctx, func() error {
		if p, err := b.currentPromise(); err != nil || p.to != b.o.Self {
			return err
		}
		return b.storePromise("")
	})
}

// HandleNeeds handles the question of a node that has given its promise to this node. It reports
// whether this node is bootstrapping the cluster or has done so.
func (b *Bootstrapper) HandleNeeds() (bool, error) {
	p, err := b.currentPromise()
	return err == nil && p.to == b.o.Self || b.BelongsToCluster(), err
}

// BelongsToCluster reports whether this node belongs to a cluster or has the log of one.
func (b *Bootstrapper) BelongsToCluster() bool {
	cluster, _ := b.o.Dir.Cluster()
	return cluster != "" || !b.o.Raft.StartedEmpty() || len(b.o.Raft.Configuration()) > 0
}

// Run bootstraps a cluster if this node should do so. It returns once the node belongs to a
// cluster, or immediately if the node must wait until a cluster adds it.
func (b *Bootstrapper) Run(ctx context.Context) {
	if b.BelongsToCluster() {
		return
	}
	if b.o.BootstrapExpect <= 1 && b.o.Joins { // another node adds this node
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

// campaign starts an election in the new cluster.
func (b *Bootstrapper) campaign() {
	b.o.Log.Info().Int("bootstrap_expect", b.o.BootstrapExpect).Msg("cluster founded")
	if err := b.o.Raft.Campaign(); err != nil {
		b.o.Log.Debug().Err(err).Msg("campaign failed, waiting for election timeout")
	}
}

// tryBootstrap bootstraps the cluster if all expected nodes are alive and agree that this node
// does it.
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
			return getErr // nil if another node has the promise now
		}
		founded = true
		return b.o.Raft.Bootstrap()
	})
	return founded, err
}

// eligibleNodes returns the IDs of the nodes that are alive and expect the same number of nodes,
// sorted. It returns nil if a node belongs to a cluster, because this cluster will add all others.
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

// allAgree asks all nodes, this node first, and reports whether all agree. If binding is set, it
// requests their promises.
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

// BootstrapStatus is why a node does not belong to a cluster yet.
type BootstrapStatus struct {
	// ClusterToJoin is the cluster of a node that is alive; it will add this node.
	ClusterToJoin string
	// MissingBootstrapper is the node that has the promise of this node and is not alive, or "".
	MissingBootstrapper string
	// Peers has the nodes that are alive and expect the same number of nodes, sorted.
	Peers []string
}

// Status returns why the node does not belong to a cluster yet.
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
