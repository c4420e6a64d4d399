package node

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
)

// loadedKeys is the key configuration that this node has loaded from its settings. A key configuration
// defines how the shard key of a request is determined. Requests use the active key configuration, which
// is part of the replicated state: the loaded one becomes active when all nodes have loaded it.
type loadedKeys struct {
	text   atomic.Pointer[string]
	digest atomic.Uint64
}

// set replaces the loaded key configuration by text, which must be in canonical form.
func (k *loadedKeys) set(text string) {
	k.text.Store(&text)
	k.digest.Store(ack.KeysDigest(text))
}

// get returns the loaded key configuration; empty means none.
func (k *loadedKeys) get() string {
	if t := k.text.Load(); t != nil {
		return *t
	}
	return ""
}

// ApplyKeys replaces the key configuration that this node has loaded by text, which must be in canonical
// form. It becomes active when all nodes have loaded it.
func (n *Node) ApplyKeys(text string) { n.loaded.set(text) }

// keysState returns the active key configuration for the status, and the nodes that have loaded a
// different one according to views, the leader's view of the nodes. nil means that there is no active
// configuration yet.
func (n *Node) keysState(s *ack.State, views []leader.MemberView) *api.KeysState {
	if s.Keys() == "" {
		return nil
	}
	digest := ack.KeysDigest(s.Keys())
	return &api.KeysState{
		Active: s.Keys(), Digest: keysName(digest), Since: uint64(s.KeysSince()), Changing: s.ChangesKeys(),
		Pending: n.pendingKeys(digest, s, views),
	}
}

// pendingKeys returns the key configurations, other than the active one, that nodes have loaded. A member
// that does not respond counts as a node that has not loaded them: the change waits for it until it
// responds or is no longer a member.
func (n *Node) pendingKeys(active uint64, s *ack.State, views []leader.MemberView) []api.PendingKeys {
	self := string(n.self)
	nodes, loaded := []string{self}, map[uint64][]string{n.loaded.digest.Load(): {self}}
	for _, v := range views {
		id := string(v.Node)
		live := v.SinceHeartbeat >= 0 && !v.Silent && !v.Heartbeat.Goodbye && !v.Restarting
		if id == self || !live && !s.Committed().Has(v.Node) {
			continue
		}
		nodes = append(nodes, id)
		if live {
			loaded[v.Heartbeat.Keys] = append(loaded[v.Heartbeat.Keys], id)
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
