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

// DrainTerms are the options of a drain.
type DrainTerms struct {
	// Release replaces the release timeout of the node, up to MaxReleaseTimeout; zero means
	// not set.
	Release time.Duration
	// Safe means that a shard that the app does not release remains at the node.
	Safe bool
	// Since is the index of the entry that started the drain.
	Since uint64
}

// setTerms sets the terms of a drain.
func (p *Policy) setTerms(index uint64, c Change) {
	if c.Release == 0 && !c.Safe {
		delete(p.Terms, c.Node)
		return
	}
	setKey(&p.Terms, c.Node, DrainTerms{Release: c.Release, Safe: c.Safe, Since: index})
}

// drainTerms writes the terms of drains in the order of the nodes.
func (w *writer) drainTerms(all map[shardmap.NodeID]DrainTerms) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id].Release))
		w.bool(all[id].Safe)
		w.uint(all[id].Since)
	}
}

func (r *reader) drainTerms() map[shardmap.NodeID]DrainTerms {
	return readSorted(r, r.node, func() DrainTerms {
		t := DrainTerms{Release: time.Duration(r.uint(0, uint64(MaxReleaseTimeout))), Safe: r.bool(), Since: r.uint(1, maxUint)}
		if r.err == nil && t.Release == 0 && !t.Safe {
			r.fail("empty drain terms")
		}
		return t
	})
}
