package adminapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
)

// loadedKeys is the key configuration that a node has loaded from its settings.
type loadedKeys struct {
	node   string
	digest uint64
}

// keysState returns the active key configuration for the status and the nodes that have loaded a different one, or
// nil if there is no active configuration yet. own is this node's loaded configuration, and views is the leader's
// view of the other nodes.
func keysState(replicated *ack.State, own loadedKeys, views []leader.MemberView) *api.KeysState {
	if replicated.KeyConfig() == "" {
		return nil
	}
	digest := ack.KeyConfigDigest(replicated.KeyConfig())
	return &api.KeysState{
		Active: replicated.KeyConfig(), Digest: formatDigest(digest), Since: uint64(replicated.KeyConfigSince()), Changing: replicated.ChangesKeyConfig(),
		Pending: pendingKeys(digest, replicated, own, views),
	}
}

// pendingKeys returns the key configurations, other than the active one, that nodes have loaded. A member
// that does not respond counts as a node that has not loaded them: the change waits for it until it
// responds or is no longer a member.
func pendingKeys(active uint64, replicated *ack.State, own loadedKeys, views []leader.MemberView) []api.PendingKeys {
	nodes := []string{own.node} // the nodes that must load a key configuration
	nodesByDigest := map[uint64][]string{own.digest: {own.node}}
	for _, member := range views {
		node, digest := string(member.Node), member.Heartbeat.KeyConfigDigest
		responds := member.SinceHeartbeat >= 0 && !member.Silent && !member.Heartbeat.Goodbye && !member.Restarting
		mustLoad := responds || replicated.Committed().IsMember(member.Node)
		if node == own.node || !mustLoad {
			continue
		}
		nodes = append(nodes, node)
		if responds {
			nodesByDigest[digest] = append(nodesByDigest[digest], node)
		}
	}
	delete(nodesByDigest, active)
	delete(nodesByDigest, 0) // nodes that have loaded no key configuration
	slices.Sort(nodes)
	pending := []api.PendingKeys{}
	for digest, loadedBy := range nodesByDigest {
		slices.Sort(loadedBy)
		missing := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return slices.Contains(loadedBy, node) })
		pending = append(pending, api.PendingKeys{Digest: formatDigest(digest), Loaded: loadedBy, Missing: missing})
	}
	slices.SortFunc(pending, func(a, b api.PendingKeys) int {
		return cmp.Or(cmp.Compare(len(b.Loaded), len(a.Loaded)), cmp.Compare(a.Digest, b.Digest))
	})
	return pending
}

// formatDigest returns a digest as 16 hexadecimal digits.
func formatDigest(digest uint64) string { return fmt.Sprintf("%016s", strconv.FormatUint(digest, 16)) }
