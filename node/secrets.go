package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"shardway/admin/api"
	"shardway/internal/secret"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/node/rotation"
	"shardway/peer"
)

// gossipKeys returns the encryption keys with which gossip starts, or nil if gossip is not encrypted.
func gossipKeys(secrets *secret.Store) [][]byte {
	if secrets == nil {
		return nil
	}
	return secrets.List().GossipKeys()
}

// followSecrets makes gossip, the streams between nodes and the quarantines use the new secrets whenever the
// secrets change.
func (n *Node) followSecrets() {
	if n.options.Secrets == nil {
		return
	}
	n.options.Secrets.OnChange(func(l secret.List) error {
		err := n.gossip.SetKeys(l.GossipKeys())
		n.RenewPeers()
		n.hasher.UpdateQuarantine()
		return err
	})
}

// RenewPeers makes later forwarded requests use new connections. It must be called after the certificate of
// this node, or the certificates that it trusts, have changed.
func (n *Node) RenewPeers() {
	n.router.RequestStreams.Outgoing.Renew()
	n.router.WebSocketStreams.Outgoing.Renew()
	n.proxy.RenewPeers()
}

var _ rotation.Cluster = rotationCluster{}

// Rotate replaces the secret of the cluster on all nodes. The leader performs the rotation, so another node
// sends it a request. An interrupted rotation continues at the step at which it was interrupted. by is the
// requester, for the log.
func (n *Node) Rotate(ctx context.Context, by string) (api.Rotation, error) {
	// The same timeout applies to a request of another node.
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if n.options.Secrets == nil {
		return api.Rotation{}, rotation.ErrNoSecrets
	}
	if n.leaderClient.Leadership() != nil {
		return n.rotation.Lead(ctx, by)
	}
	leader := n.view.Leader()
	if leader == "" {
		return api.Rotation{}, fmt.Errorf("%w: %s", api.ErrNoLeader, n.api.WhyNoLeader())
	}
	result, err := n.rotation.Ask(ctx, leader, by)
	return result, control.LeaderError(leader, err)
}

// rotationCluster implements rotation.Cluster: it sends the requests of a rotation to the other nodes.
type rotationCluster struct {
	view         *cluster.View
	client       *control.Client
	leaderClient *leaderloop.Client
}

// Leads reports whether this node leads.
func (c rotationCluster) Leads() bool { return c.leaderClient.Leadership() != nil }

// AllNodes returns the nodes of Raft's configuration, running or not, and the nodes that are present in
// gossip. outside contains the current members of gossip that are not nodes.
func (c rotationCluster) AllNodes() (nodes, outside []string) {
	voters, others := c.view.Servers()
	all := map[string]bool{}
	for _, server := range slices.Concat(voters, others) {
		all[consensus.NodeOf(server)] = true
	}
	for _, member := range c.view.Gossip.Members() {
		switch {
		case member.Status != gossip.Alive && member.Status != gossip.Leaving: // not present
		case member.Node:
			all[member.ID] = true
		default:
			outside = append(outside, gossip.DisplayName(member.ID))
		}
	}
	return slices.Sorted(maps.Keys(all)), outside
}

// Ask sends a request to a node over a TLS connection. compose creates the content of the request from the
// channel binding of the connection, which proves that both ends share this connection.
func (c rotationCluster) Ask(ctx context.Context, node, kind string, compose func(binding []byte) (rotation.Proven, error)) (json.RawMessage, error) {
	return c.client.CallRaw(ctx, node, func(conn *peer.Conn) (control.Request, error) {
		binding, err := control.Binding(conn)
		if err != nil {
			return control.Request{}, err
		}
		content, err := compose(binding)
		return control.Request{Kind: control.Kind(kind), Proven: content}, err
	})
}
