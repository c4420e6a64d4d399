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
	o      *Options
	state  func() *ack.State // the newest state of the log
	gossip *gossip.Gossip    // nil until Node.open has created it
	hasher *keyhash.Hasher
	fail   func(error) // stops the node
}

// clusterID returns the ID of the cluster that this node belongs to, or "".
func (a *announcer) clusterID() string {
	id, _ := a.o.Dir.Cluster()
	return id
}

// adopt stores the ID of the cluster that this node belongs to from now on, and announces it by gossip.
func (a *announcer) adopt(id string) error {
	if err := a.o.Dir.SetCluster(id, a.o.Shards); err != nil {
		return err
	}
	a.hasher.UpdateQuarantine()
	return a.gossip.SetTags(a.tags())
}

// tags returns the tags with which this node announces itself in gossip.
func (a *announcer) tags() gossip.Tags {
	t := gossip.Tags{
		Node: a.o.Dir.Node(), Disk: a.o.Dir.Disk(), Cluster: a.clusterID(), Shards: a.o.Shards, Role: gossip.RoleNode,
		Weight: a.o.Weight, Zone: a.o.Zone, Version: a.o.Version, AppVersion: a.o.AppVersion, Endpoints: a.o.Endpoints,
		Levels: gossip.Levels{InForce: max(uint8(a.state().FormatVersion()), a.o.Dir.Level()), Known: uint8(ack.MaxFormatVersion)},
	}
	if a.o.Gateway {
		t.Role = gossip.RoleGateway
	}
	if t.Cluster == "" {
		t.BootstrapExpect = a.o.BootstrapExpect
	}
	return t
}

// adoptFromLog adopts the cluster whose ID the log of this node contains (the state s). The node fails if
// that cluster has another number of shards.
func (a *announcer) adoptFromLog(s *ack.State) {
	if !s.Bootstrapped() || a.clusterID() == s.ClusterID() && s.Shards() == a.o.Shards {
		return
	}
	if s.Shards() != a.o.Shards {
		a.fail(fmt.Errorf("node: cluster %s has %d shards, --shards says %d: the number is fixed at birth; start with --shards %d", s.ClusterID(), s.Shards(), a.o.Shards, s.Shards()))
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
	if l <= max(a.o.Dir.Level(), uint8(ack.MinFormatVersion)) {
		return
	}
	err := a.o.Dir.StoreLevel(l)
	if err == nil {
		err = a.gossip.SetTags(a.tags())
	}
	if err != nil {
		a.fail(err)
	}
}
