package node

import (
	"fmt"

	"shardway/ack"
	"shardway/node/gossip"
	"shardway/node/keyhash"
)

// announcer announces this node by gossip. It stores the parts of the announcement that must survive a restart: the
// node's cluster and the level (format version) in force.
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

// adopt stores the ID of the cluster that this node now belongs to, and announces it by gossip.
func (a *announcer) adopt(id string) error {
	shards := a.options.Shards
	if stored, storedShards := a.options.Dir.Cluster(); stored == id {
		shards = storedShards // services may have been added since
	}
	if err := a.options.Dir.SetCluster(id, shards); err != nil {
		return err
	}
	a.hasher.UpdateQuarantine()
	return a.gossip.SetTags(a.tags())
}

// announcedShards returns the number of shards that all nodes of the cluster must have in their configurations. It is zero
// with services: their number changes, and the log contains the shards of each.
func (a *announcer) announcedShards() int {
	if len(a.options.Services) > 0 {
		return 0
	}
	return a.options.Shards
}

// tags returns the tags with which this node announces itself in gossip.
func (a *announcer) tags() gossip.Tags {
	tags := gossip.Tags{
		Node: a.options.Dir.Node(), Disk: a.options.Dir.Disk(), Cluster: a.clusterID(), Shards: a.announcedShards(), Role: gossip.RoleNode,
		Weight: a.options.Weight, Zone: a.options.Zone, Region: a.options.Region, Roles: a.options.Roles, Meta: a.options.Meta, Version: a.options.Version, AppVersion: a.options.AppVersion, Endpoints: a.options.Endpoints,
		Levels: gossip.Levels{InForce: max(uint8(a.state().FormatVersion()), a.options.Dir.Level()), Known: uint8(ack.MaxFormatVersion)},
	}
	if a.options.Gateway {
		tags.Role = gossip.RoleGateway
	}
	tags.Exec = a.options.Processes != nil
	if tags.Cluster == "" {
		tags.BootstrapExpect = a.options.BootstrapExpect
	}
	return tags
}

// adoptFromLog adopts the cluster whose ID is in this node's log (state). The node fails if that cluster, or one of
// its services, has a different number of shards.
func (a *announcer) adoptFromLog(state *ack.State) {
	if !state.Bootstrapped() {
		return
	}
	if err := checkServices(state, a.options.Services); err != nil {
		a.fail(err)
		return
	}
	if shards := shardsOfDefault(state); len(a.options.Services) == 0 && shards != a.options.Shards {
		a.fail(fmt.Errorf("node: cluster %s has %d shards, but --shards is %d: the number of shards cannot change; start with --shards %d", state.ClusterID(), shards, a.options.Shards, shards))
		return
	}
	if a.clusterID() == state.ClusterID() {
		return
	}
	if err := a.adopt(state.ClusterID()); err != nil {
		a.fail(err)
	}
}

// shardsOfDefault returns the number of shards of the service default, which a node without configured services runs.
func shardsOfDefault(state *ack.State) int {
	service, exists := state.Service(ack.DefaultService)
	if !state.HasServices() || !exists {
		return state.Shards()
	}
	return service.Shards
}

// storeLevel stores the level in force of state in the data directory, and announces it by gossip. It
// does nothing if that level is already stored.
func (a *announcer) storeLevel(state *ack.State) {
	level := uint8(state.FormatVersion())
	if level <= max(a.options.Dir.Level(), uint8(ack.MinFormatVersion)) {
		return
	}
	err := a.options.Dir.StoreLevel(level)
	if err == nil {
		err = a.gossip.SetTags(a.tags())
	}
	if err != nil {
		a.fail(err)
	}
}
