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
	options  *Options
	state    func() *ack.State // the newest state of the log
	gossip   *gossip.Gossip    // nil until Node.open has created it
	hasher   *keyhash.Hasher
	fail     func(error)              // stops the node
	services func() []ack.ServiceSpec // the services in the configuration of this node

	// Results of checkShardsOnce.
	wasCaughtUp, hasCheckedShards bool
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

// adoptFromLog adopts the cluster whose ID is in this node's log (state).
func (a *announcer) adoptFromLog(state *ack.State) {
	if !state.Bootstrapped() || a.clusterID() == state.ClusterID() {
		return
	}
	if err := a.adopt(state.ClusterID()); err != nil {
		a.fail(err)
	}
}

// checkShardsOnce calls checkShards once after the start, when the node has applied its whole log. An older state may
// contain a service that was later removed and added again. Raft counts an entry as applied a moment before the state
// machine applies it, so isCaughtUp must be true in two polls in a row.
func (a *announcer) checkShardsOnce(state *ack.State, isCaughtUp bool) {
	wasCaughtUp := a.wasCaughtUp
	a.wasCaughtUp = isCaughtUp
	if isCaughtUp && wasCaughtUp && !a.hasCheckedShards {
		a.hasCheckedShards = true
		a.checkShards(state)
	}
}

// checkShards fails the node if the cluster or one of its services has another number of shards than the
// configuration. Only a node that starts may fail for this reason. Otherwise a mistake of an operator
// who adds a service would stop all nodes. A running node reports a finding, and uses the numbers in the log.
func (a *announcer) checkShards(state *ack.State) {
	if !state.Bootstrapped() {
		return
	}
	err := checkServices(state, a.services())
	if len(a.options.Services) == 0 {
		err = checkDefaultService(state, a.options.Shards)
	}
	if err != nil {
		a.fail(err)
	}
}

// checkDefaultService returns an error if a node without configured services cannot run the service default.
func checkDefaultService(state *ack.State, shards int) error {
	service, exists := state.Service(ack.DefaultService)
	switch {
	case !exists:
		return fmt.Errorf("node: cluster %s has no service %s: add the table services of the other nodes to the configuration", state.ClusterID(), ack.DefaultService)
	case service.Shards != shards:
		return fmt.Errorf("node: cluster %s has %[2]d shards, but --shards is %[3]d: the number of shards cannot change; start with --shards %[2]d", state.ClusterID(), service.Shards, shards)
	}
	return nil
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
