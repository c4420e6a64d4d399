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

// keysState returns the active key configuration for the status, and the nodes that have loaded a
// different one according to views, the leader's view of the nodes. nil means that there is no active
// configuration yet.
func (a *API) keysState(s *ack.State, views []leader.MemberView) *api.KeysState {
	if s.KeyConfig() == "" {
		return nil
	}
	digest := ack.KeyConfigDigest(s.KeyConfig())
	return &api.KeysState{
		Active: s.KeyConfig(), Digest: keysName(digest), Since: uint64(s.KeyConfigSince()), Changing: s.ChangesKeyConfig(),
		Pending: a.pendingKeys(digest, s, views),
	}
}

// pendingKeys returns the key configurations, other than the active one, that nodes have loaded. A member
// that does not respond counts as a node that has not loaded them: the change waits for it until it
// responds or is no longer a member.
func (a *API) pendingKeys(active uint64, s *ack.State, views []leader.MemberView) []api.PendingKeys {
	self := string(a.o.Self)
	nodes, loaded := []string{self}, map[uint64][]string{a.o.LoadedKeys(): {self}}
	for _, v := range views {
		id := string(v.Node)
		live := v.SinceHeartbeat >= 0 && !v.Silent && !v.Heartbeat.Goodbye && !v.Restarting
		if id == self || !live && !s.Committed().IsMember(v.Node) {
			continue
		}
		nodes = append(nodes, id)
		if live {
			loaded[v.Heartbeat.KeyConfigDigest] = append(loaded[v.Heartbeat.KeyConfigDigest], id)
		}
	}
	delete(loaded, active)
	delete(loaded, 0) // nodes that have loaded no key configuration
	slices.Sort(nodes)
	pending := []api.PendingKeys{}
	for digest, by := range loaded {
		slices.Sort(by)
		missing := slices.DeleteFunc(slices.Clone(nodes), func(id string) bool { return slices.Contains(by, id) })
		pending = append(pending, api.PendingKeys{Digest: keysName(digest), Loaded: by, Missing: missing})
	}
	slices.SortFunc(pending, func(a, b api.PendingKeys) int {
		return cmp.Or(cmp.Compare(len(b.Loaded), len(a.Loaded)), cmp.Compare(a.Digest, b.Digest))
	})
	return pending
}

// keysName returns a digest as 16 hexadecimal digits.
func keysName(digest uint64) string { return fmt.Sprintf("%016s", strconv.FormatUint(digest, 16)) }
