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
// bootstraps nor has bootstrapped a cluster. A promise to a dead node remains, because that node
// may have bootstrapped right before it died, and a second cluster must not exist. A bootstrapper
// without all promises withdraws in favour of a smaller ID.
//
// The bootstrapper starts with a cluster of one and adds the other nodes as it adds any new node.
type Bootstrapper struct {
	options BootstrapperOptions
	// lock has capacity 1. The goroutine that has sent an element may change the promise or
	// bootstrap. It is not a mutex because these operations wait for the disk, so waiting for the lock
	// must end with a context.
	lock chan struct{}
	// current is the current promise, or nil until it has been read from the disk. Each promise has
	// its own address, even if it is given to the same node again.
	current atomic.Pointer[promise]
}

// BootstrapperOptions configure a Bootstrapper.
type BootstrapperOptions struct {
	// Self is the ID of the node. BootstrapExpect is the number of nodes that bootstrap a cluster
	// together. HasJoinAddrs is true if join addresses are configured.
	Self            string
	BootstrapExpect int
	HasJoinAddrs    bool
	// JoinsOnlyItself returns nil if all join addresses are addresses of this node. The node then
	// bootstraps a cluster with BootstrapExpect 1 although HasJoinAddrs is true. If the function is
	// nil, the node never bootstraps in this case.
	JoinsOnlyItself func(context.Context) error
	Dir             PromiseStore
	Raft            BootstrapRaft
	Gossip          Gossip
	Nodes           BootstrapPeers
	// OnFailure stops the node.
	OnFailure func(error)
	Log       zerolog.Logger
}

// PromiseStore is the data directory, which stores the promise.
type PromiseStore interface {
	// Cluster returns the cluster of the node; id is empty if it has none.
	Cluster() (id string, shards int)
	// PromisedNode returns the node that has the promise, or "".
	PromisedNode() (to string, err error)
	// StorePromise stores the promise to a node; "" deletes it.
	StorePromise(to string) error
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
func NewBootstrapper(options BootstrapperOptions) *Bootstrapper {
	return &Bootstrapper{options: options, lock: make(chan struct{}, 1)}
}

// promise names the node that may bootstrap the cluster; "" means that no promise is given.
type promise struct{ node string }

// withLock calls change while it holds the lock.
func (b *Bootstrapper) withLock(ctx context.Context, change func() error) error {
	select {
	case b.lock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("membership: another promise is being decided: %w", ctx.Err())
	}
	defer func() { <-b.lock }()
	return change()
}

// PromisedTo returns the node that has the promise of this node, or "".
func (b *Bootstrapper) PromisedTo() (string, error) {
	promise, err := b.currentPromise()
	if err != nil {
		return "", err
	}
	return promise.node, nil
}

// currentPromise returns the promise of this node. It does not wait for the lock.
func (b *Bootstrapper) currentPromise() (*promise, error) {
	if current := b.current.Load(); current != nil {
		return current, nil
	}
	node, err := b.options.Dir.PromisedNode()
	if err != nil {
		return nil, err
	}
	b.current.CompareAndSwap(nil, &promise{node})
	return b.current.Load(), nil
}

// storePromise gives the promise to a node, or withdraws it if node is empty. The caller must hold
// the lock.
func (b *Bootstrapper) storePromise(node string) error {
	current, err := b.currentPromise()
	if err == nil && current.node != node {
		err = b.options.Dir.StorePromise(node)
	}
	if err != nil {
		return err
	}
	b.current.Store(&promise{node})
	return nil
}

// HandlePromise handles the request of a node that tries to bootstrap the cluster. It reports
// whether this node agrees. If binding is set, it gives the promise.
func (b *Bootstrapper) HandlePromise(ctx context.Context, requester string, binding bool) (bool, error) {
	err := b.withdrawStale(ctx, requester)
	if err == nil {
		err = b.withLock(ctx, func() error { return b.grantPromise(requester, binding) })
	}
	return err == nil, err
}

// grantPromise agrees to a request if no other node has the promise, and gives the promise if binding is
// set. The caller must hold the lock.
func (b *Bootstrapper) grantPromise(requester string, binding bool) error {
	current, err := b.currentPromise()
	switch {
	case err != nil:
		return err
	case b.BelongsToCluster():
		cluster, _ := b.options.Dir.Cluster()
		return fmt.Errorf("node %q belongs to cluster %q already", b.options.Self, cluster)
	case current.node != "" && current.node != requester:
		return fmt.Errorf("node %q waits for %q to found the cluster", b.options.Self, current.node)
	case !binding:
		return nil
	}
	return b.storePromise(requester)
}

// withdrawStale withdraws the promise to a node other than requester if that node no longer needs
// the promise.
func (b *Bootstrapper) withdrawStale(ctx context.Context, requester string) error {
	current, err := b.currentPromise()
	if err != nil || current.node == "" || current.node == requester {
		return err
	}
	if isOwnPromise := current.node == b.options.Self; isOwnPromise {
		if requester > b.options.Self {
			return nil // requester will see this node soon, and agree to it
		}
	} else {
		needs, err := b.isPromiseNeededBy(ctx, current.node)
		if err != nil || needs {
			return err
		}
	}
	return b.withLock(ctx, func() error {
		if latest, err := b.currentPromise(); err != nil || latest != current || b.BelongsToCluster() {
			return err
		}
		return b.storePromise("")
	})
}

// isPromiseNeededBy asks a node whether it still needs the promise of this node.
func (b *Bootstrapper) isPromiseNeededBy(ctx context.Context, node string) (needed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return b.options.Nodes.NeedsPromise(ctx, node)
}

// withdrawOwn withdraws the promise of this node to itself. It is for a node that does not
// bootstrap, but was previously started with other flags.
func (b *Bootstrapper) withdrawOwn(ctx context.Context) error {
	return b.withLock(ctx, func() error {
		if current, err := b.currentPromise(); err != nil || current.node != b.options.Self {
			return err
		}
		return b.storePromise("")
	})
}

// HandleNeedsPromise handles the question of a node that has given its promise to this node. It reports
// whether this node is bootstrapping the cluster or has done so.
func (b *Bootstrapper) HandleNeedsPromise() (bool, error) {
	current, err := b.currentPromise()
	return err == nil && current.node == b.options.Self || b.BelongsToCluster(), err
}

// BelongsToCluster reports whether this node belongs to a cluster or has the log of one.
func (b *Bootstrapper) BelongsToCluster() bool {
	cluster, _ := b.options.Dir.Cluster()
	return cluster != "" || !b.options.Raft.StartedEmpty() || len(b.options.Raft.Configuration()) > 0
}

// Run bootstraps a cluster if this node should do so. It returns once the node belongs to a
// cluster, or immediately if the node must wait until a cluster adds it.
func (b *Bootstrapper) Run(ctx context.Context) {
	if b.BelongsToCluster() {
		return
	}
	if b.options.BootstrapExpect <= 1 && b.options.HasJoinAddrs { // another node adds this node
		if err := b.withdrawOwn(ctx); err != nil {
			if ctx.Err() == nil {
				b.options.OnFailure(err)
			}
			return
		}
		if b.options.JoinsOnlyItself != nil {
			b.runAlone(ctx)
		}
		return
	}
	ticker := time.NewTicker(bootstrapInterval)
	defer ticker.Stop()
	for !b.BelongsToCluster() {
		bootstrapped, err := b.tryBootstrap(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.options.OnFailure(err)
			return
		}
		if bootstrapped {
			b.campaign()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// campaign starts an election in the new cluster.
func (b *Bootstrapper) campaign() {
	b.options.Log.Info().Int("bootstrap_expect", b.options.BootstrapExpect).Msg("cluster founded")
	if err := b.options.Raft.Campaign(); err != nil {
		b.options.Log.Debug().Err(err).Msg("campaign failed, waiting for election timeout")
	}
}

// tryBootstrap bootstraps the cluster if all expected nodes are alive and agree that this node may.
func (b *Bootstrapper) tryBootstrap(ctx context.Context) (bootstrapped bool, err error) {
	if b.options.BootstrapExpect <= 1 {
		return true, b.options.Raft.Bootstrap()
	}
	nodes := b.eligibleNodes()
	if len(nodes) < b.options.BootstrapExpect || nodes[0] != b.options.Self {
		return false, nil
	}
	if !b.allAgree(ctx, nodes, false) || !b.allAgree(ctx, nodes, true) {
		return false, nil
	}
	err = b.withLock(ctx, func() error {
		current, getErr := b.currentPromise()
		if getErr != nil || current.node != b.options.Self || b.BelongsToCluster() {
			return getErr // nil if another node has the promise now
		}
		bootstrapped = true
		return b.options.Raft.Bootstrap()
	})
	return bootstrapped, err
}

// eligibleNodes returns the IDs of the nodes that are alive and expect the same number of nodes,
// sorted. It returns nil if a node belongs to a cluster, because that cluster will add all others.
func (b *Bootstrapper) eligibleNodes() []string {
	var nodes []string
	for _, member := range b.options.Gossip.Members() {
		if !member.Node || member.Status != gossip.Alive {
			continue
		}
		if member.Tags.Cluster != "" {
			return nil
		}
		if member.Tags.BootstrapExpect == b.options.BootstrapExpect {
			nodes = append(nodes, member.ID)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// allAgree asks all nodes, this node first, and reports whether all agree. If binding is set, it
// requests their promises.
func (b *Bootstrapper) allAgree(ctx context.Context, nodes []string, binding bool) bool {
	for _, id := range nodes {
		var agrees bool
		var err error
		if id == b.options.Self {
			agrees, err = b.HandlePromise(ctx, id, binding)
		} else {
			callCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
			agrees, err = b.options.Nodes.RequestPromise(callCtx, id, binding)
			cancel()
		}
		if err != nil || !agrees {
			b.options.Log.Debug().Err(err).Str("peer", id).Msg("cluster not founded yet")
			return false
		}
	}
	return true
}

// BootstrapStatus contains the reasons why a node does not belong to a cluster yet.
type BootstrapStatus struct {
	// ClusterToJoin is the cluster of a node that is alive; it will add this node.
	ClusterToJoin string
	// MissingBootstrapper is the node that has the promise of this node and is not alive, or "".
	MissingBootstrapper string
	// Peers has the nodes that are alive and expect the same number of nodes, sorted.
	Peers []string
}

// Status returns why the node does not belong to a cluster yet.
func (b *Bootstrapper) Status() (status BootstrapStatus) {
	for _, member := range b.options.Gossip.Members() {
		if !member.Node || member.Status != gossip.Alive {
			continue
		}
		if member.Tags.Cluster != "" {
			status.ClusterToJoin = member.Tags.Cluster
		}
		if member.Tags.BootstrapExpect == b.options.BootstrapExpect {
			status.Peers = append(status.Peers, member.ID)
		}
	}
	slices.Sort(status.Peers)
	if current, err := b.currentPromise(); err == nil && current.node != "" && current.node != b.options.Self && !isAlive(b.options.Gossip, current.node) {
		status.MissingBootstrapper = current.node
	}
	return status
}
