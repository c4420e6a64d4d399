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
	// Safe is set if a shard that the app does not release remains at the node.
	Safe bool
	// Index is the index of the entry that started the drain.
	Index uint64
}

// setDrainOptions sets the options of a drain. It removes those of an earlier drain of the node.
func (p *Policy) setDrainOptions(index uint64, change Change) {
	if change.ReleaseTimeout == 0 && !change.SafeDrain {
		delete(p.DrainOptions, change.Node)
		return
	}
	setKey(&p.DrainOptions, change.Node, DrainOptions{ReleaseTimeout: change.ReleaseTimeout, Safe: change.SafeDrain, Index: index})
}

// writeDrainOptions writes the options of drains in the order of the nodes.
func (w *writer) writeDrainOptions(options map[shardmap.NodeID]DrainOptions) {
	w.uint(uint64(len(options)))
	for _, id := range slices.Sorted(maps.Keys(options)) {
		w.text(string(id))
		w.uint(uint64(options[id].ReleaseTimeout))
		w.bool(options[id].Safe)
		w.uint(options[id].Index)
	}
}

// readDrainOptions decodes the output of writer.writeDrainOptions.
func (r *reader) readDrainOptions() map[shardmap.NodeID]DrainOptions {
	return readSorted(r, r.readNode, func() DrainOptions {
		options := DrainOptions{ReleaseTimeout: r.readReleaseTimeout(), Safe: r.bool(), Index: r.uint(1, maxUint)}
		if r.err == nil && options.ReleaseTimeout == 0 && !options.Safe {
			r.fail("empty drain terms")
		}
		return options
	})
}
