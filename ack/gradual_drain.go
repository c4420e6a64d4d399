package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// GradualDrain is a drain that moves idle shards first. A shard moves once its owner reports
// that no request runs for it. The remaining shards move after Duration.
type GradualDrain struct {
	// Duration is the time until the remaining shards move. Each leader measures it as Policy.Pause.
	Duration time.Duration
	// Index is the index of the entry that started the drain.
	Index uint64
}

// MaxGradualDrain is the longest gradual drain.
const MaxGradualDrain = 24 * time.Hour

// DrainsGradually reports whether a node has a gradual drain.
func (p *Policy) DrainsGradually(id shardmap.NodeID) bool {
	_, drains := p.GradualDrains[id]
	return drains
}

// IsDraining reports whether a node will own nothing, now or at the end of a gradual drain.
func (p *Policy) IsDraining(id shardmap.NodeID) bool { return p.Drained[id] || p.DrainsGradually(id) }

// writeGradualDrains writes the gradual drains in the order of the nodes.
func (w *writer) writeGradualDrains(drains map[shardmap.NodeID]GradualDrain) {
	w.uint(uint64(len(drains)))
	for _, id := range slices.Sorted(maps.Keys(drains)) {
		w.text(string(id))
		w.uint(uint64(drains[id].Duration))
		w.uint(drains[id].Index)
	}
}

// readGradualDrains decodes the output of writer.writeGradualDrains.
func (r *reader) readGradualDrains() map[shardmap.NodeID]GradualDrain {
	return readSorted(r, r.readNode, func() GradualDrain {
		return GradualDrain{Duration: r.readDuration(MaxGradualDrain), Index: r.uint(1, maxUint)}
	})
}
