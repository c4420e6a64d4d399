package node

import (
	"sync/atomic"

	"shardway/ack"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// loadedKeys is the key configuration that this node has loaded from its settings. A key configuration
// defines how the shard key of a request is determined. Requests use the active key configuration, which
// is part of the replicated state: the loaded one becomes active when all nodes have loaded it.
type loadedKeys struct {
	text     atomic.Pointer[string]
	digest   atomic.Uint64
	services atomic.Pointer[[]ack.ServiceSpec]
}

// set replaces the loaded key configuration by text, which must be in canonical form.
func (k *loadedKeys) set(text string) {
	services := leaderloop.ServicesOf(text)
	k.services.Store(&services)
	k.text.Store(&text)
	k.digest.Store(ack.KeyConfigDigest(text))
}

// get returns the loaded key configuration; empty means none.
func (k *loadedKeys) get() string {
	if text := k.text.Load(); text != nil {
		return *text
	}
	return ""
}

// ApplyKeys replaces the key configuration that this node has loaded by text, which must be in canonical
// form. It becomes active when all nodes have loaded it.
func (n *Node) ApplyKeys(text string) { n.loadedKeys.set(text) }

// acceptsNewKeys reports whether keys that are created for new sessions may belong to a node: the
// node neither drains nor is cordoned. "" means this node.
func (a *agent) acceptsNewKeys(node string) bool {
	id := shardmap.NodeID(node)
	if id == "" {
		id = a.self
	}
	if id == a.self && a.isLeaving.Load() {
		return false
	}
	policy := a.newestState().Policy()
	return !policy.IsDraining(id) && !policy.Cordoned[id] && !policy.MarkedFailed[id]
}
