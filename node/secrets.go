package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"shardway/admin/api"
	"shardway/internal/secret"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/node/rotation"
	"shardway/peer"
)

// known reports whether a node may speak with this one: gossip shows it, or it
// is in Raft's configuration, so that a cut in gossip parts nobody.
func (n *Node) known(node string) bool {
	if n.gossip.Knows(node) {
		return true
	}
	voters, others := n.servers()
	return serverOf(slices.Concat(voters, others), node) != ""
}

// gossipKeys returns the keys that gossip starts with, none without a secret.
func (n *Node) gossipKeys() [][]byte {
	if n.o.Secrets == nil {
		return nil
	}
	return n.o.Secrets.List().GossipKeys()
}

// followSecrets keeps gossip, and the streams between nodes, by the secrets of
// the moment.
func (n *Node) followSecrets() {
	if n.o.Secrets == nil {
		return
	}
	n.o.Secrets.OnChange(func(l secret.List) error {
		err := n.gossip.SetKeys(l.GossipKeys())
		n.RenewPeers()
		n.requarantine()
		return err
	})
}

// RenewPeers lets forwarded requests go over new streams: this node's
// certificate, or whom it believes, has changed.
func (n *Node) RenewPeers() {
	n.router.requestStreams.Outgoing.Renew()
	n.router.webSocketStreams.Outgoing.Renew()
	n.proxy.RenewPeers()
}

var _ rotation.Cluster = rotating{}

// Rotate replaces the cluster's secret on every node, through the leader. One
// that stopped half way is taken up where it stood.
func (n *Node) Rotate(ctx context.Context, by string) (api.Rotation, error) {
	// The same timeout applies to a request of another node.
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if n.o.Secrets == nil {
		return api.Rotation{}, rotation.ErrNoSecrets
	}
	if n.leadership() != nil {
		return n.rotation.Lead(ctx, by)
	}
	leader := n.leader()
	if leader == "" {
		return api.Rotation{}, fmt.Errorf("%w: %s", api.ErrNoLeader, n.leaderless())
	}
	r, err := n.rotation.Ask(ctx, leader, by)
	return r, control.LeaderError(leader, err)
}

// rotating is the node as its rotation sees it.
type rotating struct{ n *Node }

// Leads reports whether this node leads.
func (r rotating) Leads() bool { return r.n.leadership() != nil }

// Everybody returns the nodes of the configuration, running or not, and those that
// gossip sees.
func (r rotating) Everybody() (nodes, outside []string) {
	voters, others := r.n.servers()
	all := map[string]bool{}
	for _, server := range slices.Concat(voters, others) {
		all[nodeOf(server)] = true
	}
	for _, m := range r.n.gossip.Members() {
		switch {
		case m.Status != gossip.Alive && m.Status != gossip.Leaving:
		case m.Node:
			all[m.ID] = true
		default:
			outside = append(outside, m.ID)
		}
	}
	return slices.Sorted(maps.Keys(all)), outside
}

// Ask asks over a stream that TLS is beneath.
func (r rotating) Ask(ctx context.Context, node, what string, compose func(binding []byte) (rotation.Proven, error)) (json.RawMessage, error) {
	return r.n.client.CallRaw(ctx, node, func(c *peer.Conn) (control.Request, error) {
		binding, err := control.Binding(c)
		if err != nil {
			return control.Request{}, err
		}
		p, err := compose(binding)
		return control.Request{Kind: control.Kind(what), Proven: p}, err
	})
}
