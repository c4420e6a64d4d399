package node

import (
	"context"
	"encoding/json"

	"shardway/ack"
	"shardway/node/control"
	"shardway/node/disk"
	"shardway/node/membership"
)

var (
	_ membership.BootstrapPeers = peerClient{}
	_ membership.DuplicatePeers = peerClient{}
)

// peerClient sends requests of package membership to other nodes.
type peerClient struct{ client *control.Client }

// RequestPromise implements membership.BootstrapPeers.
func (c peerClient) RequestPromise(ctx context.Context, node string, firm bool) (ok bool, err error) {
	err = c.client.Call(ctx, node, control.Request{Kind: control.BootstrapPromise, Execute: firm}, &ok)
	return ok, err
}

// NeedsPromise implements membership.BootstrapPeers.
func (c peerClient) NeedsPromise(ctx context.Context, node string) (needs bool, err error) {
	err = c.client.Call(ctx, node, control.Request{Kind: control.NeedsPromise}, &needs)
	return needs, err
}

// FindElsewhere implements membership.DuplicatePeers.
func (c peerClient) FindElsewhere(ctx context.Context, node string, nonce uint64) (addr string, err error) {
	err = c.client.Call(ctx, node, control.Request{Kind: control.Duplicate, Nonce: nonce}, &addr)
	return addr, err
}

// RequestIdentity implements membership.DuplicatePeers.
func (c peerClient) RequestIdentity(ctx context.Context, node string) (process membership.Process, err error) {
	err = c.client.Call(ctx, node, control.Request{Kind: control.Identity}, &process)
	return process, err
}

// openMembership creates the bootstrapper and the duplicate detector of this node. Both need Raft, so
// openRaft calls it after Raft has started.
func (n *Node) openMembership() {
	var joinsOnlyItself func(context.Context) error // nil means that the node does not create a cluster alone
	if n.options.FoundsAlone && n.options.BootstrapExpect <= 1 {
		joinsOnlyItself = n.gossip.JoinsOnlyItself
	}
	n.bootstrapper = membership.NewBootstrapper(membership.BootstrapperOptions{
		JoinsOnlyItself: joinsOnlyItself,
		Self:            string(n.self), BootstrapExpect: n.options.BootstrapExpect, HasJoinAddrs: len(n.options.Join) > 0,
		Dir: n.options.Dir, Raft: n.raft, Gossip: n.gossip, Nodes: peerClient{n.client}, OnFailure: n.failures.fail, Log: n.log,
	})
	n.duplicates = membership.NewDuplicateDetector(membership.DuplicateOptions{
		Self: string(n.self), Nonce: n.nonce, Gossip: n.gossip, Nodes: peerClient{n.client}, Lookup: n.view.Lookup, Log: n.log,
		IsAnswered:  func() bool { return n.agent.lastAnswer.Load() != 0 },
		OnDetection: func(addr string) { n.agent.duplicateAddr.Store(&addr) },
		OnDuplicate: func(addr string) {
			select {
			case n.agent.persistentDuplicate <- addr:
			default:
			}
		},
	})
}

// notifyJoin reports the state of its join request to a node that waits for an approval.
func (n *Node) notifyJoin(ctx context.Context, node string, status membership.JoinStatus) {
	encoded, err := json.Marshal(status)
	if err == nil {
		err = n.client.Call(ctx, node, control.Request{Kind: control.JoinStatus, Join: encoded}, nil)
	}
	if err != nil {
		n.log.Debug().Err(err).Str("peer", node).Msg("join status not sent")
	}
}

// identities returns the identities of this node's process and of other nodes' processes.
type identities struct {
	self  string
	dir   *disk.Dir
	nonce uint64
	peers peerClient
}

// own returns the identity of this process, and the highest level (format version) that its program
// supports.
func (i *identities) own() membership.Process {
	return membership.Process{Disk: i.dir.Disk(), Nonce: i.nonce, Boot: i.dir.Boot(), Level: ack.MaxFormatVersion}
}

// of returns the identity of the process of a node, which may be this node.
func (i *identities) of(ctx context.Context, node string) (membership.Process, error) {
	if node == i.self {
		return i.own(), nil
	}
	return i.peers.RequestIdentity(ctx, node)
}
