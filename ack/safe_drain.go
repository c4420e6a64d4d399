package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// MaxReleaseTimeout bounds the release timeout of a node, because the leader waits that much
// longer for the acknowledgement of the node.
const MaxReleaseTimeout = 60 * time.Second

// DrainOptions are the options of a drain.
type DrainOptions struct {
	// ReleaseTimeout replaces the release timeout of the node, up to MaxReleaseTimeout; zero means
	// not set.
	ReleaseTimeout time.Duration
	// Safe means that a shard that the app does not release remains at the node.
	Safe bool
	// Index is the index of the entry that started the drain.
	Index uint64
}

// setDrainOptions sets the terms of a drain.
func (p *Policy) setDrainOptions(index uint64, change Change) {
	if change.ReleaseTimeout == 0 && !change.SafeDrain {
		delete(p.DrainOptions, change.Node)
		return
	}
	setKey(&p.DrainOptions, change.Node, DrainOptions{ReleaseTimeout: change.ReleaseTimeout, Safe: change.SafeDrain, Index: index})
}

// drainOptions writes the terms of drains in the order of the nodes.
func (w *writer) drainOptions(all map[shardmap.NodeID]DrainOptions) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id].ReleaseTimeout))
		w.bool(all[id].Safe)
		w.uint(all[id].Index)
	}
}

func (r *reader) drainOptions() map[shardmap.NodeID]DrainOptions {
	return readSorted(r, r.node, func() DrainOptions {
		options := DrainOptions{ReleaseTimeout: time.Duration(r.uint(0, uint64(MaxReleaseTimeout))), Safe: r.bool(), Index: r.uint(1, maxUint)}
		if r.err == nil && options.ReleaseTimeout == 0 && !options.Safe {
			r.fail("empty drain terms")
		}
		return options
	})
}
