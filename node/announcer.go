package node

import (
	"fmt"

	"shardway/ack"
	"shardway/node/gossip"
	"shardway/node/keyhash"
)

// announcer announces this node by gossip. It stores what the announcement must still contain after a
// restart: the cluster that the node belongs to, and the level (format version) in force.
type announcer struct {
	options *Options
	state   func() *ack.State // the newest state of the log
	gossip  *gossip.Gossip    // nil until Node.open has created it
	hasher  *keyhash.Hasher
	fail    func(error) // stops the node
}

// clusterID returns the ID of the cluster that this node belongs to, or "".
func (a *announcer) clusterID() string {
	id, _ := a.options.Dir.Cluster()
	return id
}

// adopt stores the ID of the cluster that this node belongs to from now on, and announces it by gossip.
func (a *announcer) adopt(id string) error {
	if err := a.options.Dir.SetCluster(id, a.options.Shards); err != nil {
		return err
	}
	a.hasher.UpdateQuarantine()
	return a.gossip.SetTags(a.tags())
}

// tags returns the tags with which this node announces itself in gossip.
func (a *announcer) tags() gossip.Tags {
	t := gossip.Tags{
		Node: a.options.Dir.Node(), Disk: a.options.Dir.Disk(), Cluster: a.clusterID(), Shards: a.options.Shards, Role: gossip.RoleNode,
		Weight: a.options.Weight, Zone: a.options.Zone, Version: a.options.Version, AppVersion: a.options.AppVersion, Endpoints: a.options.Endpoints,
		Levels: gossip.Levels{InForce: max(uint8(a.state().FormatVersion()), a.options.Dir.Level()), Known: uint8(ack.MaxFormatVersion)},
	}
	if a.options.Gateway {
		t.Role = gossip.RoleGateway
	}
	if t.Cluster == "" {
		t.BootstrapExpect = a.options.BootstrapExpect
	}
	return t
}

// adoptFromLog adopts the cluster whose ID the log of this node contains (the state s). The node fails if
// that cluster has another number of shards.
func (a *announcer) adoptFromLog(s *ack.State) {
	if !s.Bootstrapped() || a.clusterID() == s.ClusterID() && s.Shards() == a.options.Shards {
		return
	}
	if s.Shards() != a.options.Shards {
		a.fail(fmt.Errorf("node: cluster %s has %d shards, --shards says %d: the number is fixed at birth; start with --shards %d", s.ClusterID(), s.Shards(), a.options.Shards, s.Shards()))
		return
	}
	if err := a.adopt(s.ClusterID()); err != nil {
		a.fail(err)
	}
}

// keepLevel stores the level in force of the state s in the data directory, and announces it by gossip. It
// does nothing if that level is already stored.
func (a *announcer) keepLevel(s *ack.State) {
	l := uint8(s.FormatVersion())
	if l <= max(a.options.Dir.Level(), uint8(ack.MinFormatVersion)) {
		return
	}
	err := a.options.Dir.StoreLevel(l)
	if err == nil {
		err = a.gossip.SetTags(a.tags())
	}
	if err != nil {
		a.fail(err)
	}
}
