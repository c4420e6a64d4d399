package leader

import (
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// KeyConfigLoaded reports which key configuration the leader's own node has loaded; empty means none. Services are the
// services that it names.
type KeyConfigLoaded struct {
	Text     string
	Services []ack.ServiceSpec
}

func (KeyConfigLoaded) message() {}

// keyConfigChange decides when the key configuration of the cluster changes. A change holds every
// shard until all members have acknowledged it.
type keyConfigChange struct {
	// loaded is the key configuration that the leader's own node has loaded; empty means none.
	loaded       string
	loadedDigest uint64
	services     []ack.ServiceSpec // that loaded names
}

// setLoadedConfig records the key configuration that the leader's own node has loaded.
func (c *keyConfigChange) setLoadedConfig(m KeyConfigLoaded) {
	c.loaded, c.loadedDigest, c.services = m.Text, ack.KeyConfigDigest(m.Text), m.Services
}

// isDueNow reports whether this leader's open round changes the key configuration or, if no proposal
// is open, whether the next round will. Such a round drains all shards, so busy shards can move with
// it at no extra cost.
func (c *keyConfigChange) isDueNow(in inputs, nodes *memberTracker, membership *membership) bool {
	if in.state.HasOpenProposal() {
		return in.ownRoundOpen() && in.state.ChangesKeyConfig() && !c.isBlocked(in, nodes)
	}
	return c.configToActivate(in, nodes, membership) != ""
}

// isBlocked reports whether the open proposal changes the key configuration while a member restarts in place. The
// commit would require that member's acknowledgement, and every shard would be held until that member is back.
func (c *keyConfigChange) isBlocked(in inputs, nodes *memberTracker) bool {
	if !in.ownRoundOpen() || !in.state.ChangesKeyConfig() || in.state.KeyConfig() == "" {
		return false
	}
	for _, member := range in.state.Proposed().Members() {
		if in.isRestarting(nodes.getOrCreate(member.ID)) {
			return true
		}
	}
	return false
}

// configToActivate returns the key configuration that must become active now, or "" if there is none. That is the
// configuration that the leader's own node has loaded, once every member and every other node that sends
// heartbeats, gateways included, has loaded it too, and once all its services exist. Requests for a service that
// cannot be added would otherwise wait, although another service may serve them until then. The first key
// configuration needs neither, because no request is routed before it.
func (c *keyConfigChange) configToActivate(in inputs, nodes *memberTracker, membership *membership) string {
	active := in.state.KeyConfig()
	switch {
	case c.loaded == "" || c.loaded == active:
		return ""
	case active == "":
		return c.loaded
	case !c.isLoadedByAll(in, nodes, membership) || c.lacksService(in):
		return ""
	}
	return c.loaded
}

// isLoadedByAll reports whether every member and every other node that sends heartbeats has loaded the key configuration
// that the leader's own node has loaded.
func (c *keyConfigChange) isLoadedByAll(in inputs, nodes *memberTracker, membership *membership) bool {
	if in.isNewLeader() {
		return false // a live node may not have sent its first heartbeat yet
	}
	return c.membersAgree(in, nodes, membership) && c.otherNodesAgree(in, nodes)
}

// lacksService reports whether a service of the key configuration does not exist in the cluster.
func (c *keyConfigChange) lacksService(in inputs) bool {
	return slices.ContainsFunc(c.services, func(spec ack.ServiceSpec) bool {
		_, exists := in.state.Service(spec.Name)
		return !exists
	})
}

// missingServices returns the changes that add the services that all nodes have loaded and that the cluster does not have.
// All nodes have the same number of shards for them, because it is part of the key configuration. It omits changes
// that would have no effect.
func (c *keyConfigChange) missingServices(in inputs, nodes *memberTracker, membership *membership) (changes []ack.Change) {
	for _, spec := range c.services {
		change := ack.Change{Kind: ack.ChangeAddService, Service: spec.Name, Shards: spec.Shards}
		if _, exists := in.state.Service(spec.Name); !exists && in.state.CheckChanges([]ack.Change{change}) == nil {
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 || !c.isLoadedByAll(in, nodes, membership) {
		return nil
	}
	return changes[:min(len(changes), ack.MaxChanges)]
}

// membersAgree reports whether every member of the committed and the proposed map is responsive and has loaded the key
// configuration.
func (c *keyConfigChange) membersAgree(in inputs, nodes *memberTracker, membership *membership) bool {
	for _, shards := range [...]*shardmap.Map{in.state.Committed(), in.state.Proposed()} {
		for _, member := range shards.Members() {
			node := nodes.getOrCreate(member.ID)
			if !membership.isResponsive(in, node) || node.heartbeat.KeyConfigDigest != c.loadedDigest {
				return false
			}
		}
	}
	return true
}

// otherNodesAgree reports whether every node that sends heartbeats, gateways included, has loaded the key configuration.
func (c *keyConfigChange) otherNodesAgree(in inputs, nodes *memberTracker) bool {
	for _, node := range nodes.byID {
		isLive := node.sendsHeartbeats(in) && !node.heartbeat.Goodbye
		if isLive && node.heartbeat.KeyConfigDigest != c.loadedDigest {
			return false
		}
	}
	return true
}
