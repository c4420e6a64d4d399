package ack

import (
	"maps"
	"slices"

	"shardway/shardmap"
)

// MaxPinFallbacks is the maximum number of nodes of a pin after the first one.
const MaxPinFallbacks = 7

// setPin replaces the pin of a shard. The maps of p must not be shared.
func (p *Policy) setPin(shard shardmap.Shard, pin shardmap.Pin, fallbacks []shardmap.NodeID) {
	setKey(&p.Pins, shard, pin)
	if len(fallbacks) > 0 {
		setKey(&p.PinFallbacks, shard, slices.Clone(fallbacks))
	} else {
		delete(p.PinFallbacks, shard)
	}
}

// deleteFromPins removes a node from all pins. The first fallback of a pin takes the place of the node. A pin
// without fallbacks is removed.
func (p *Policy) deleteFromPins(node shardmap.NodeID) {
	for shard, pin := range p.Pins {
		if pin.Zone != "" {
			continue
		}
		all := append([]shardmap.NodeID{pin.Node}, p.PinFallbacks[shard]...)
		rest := slices.DeleteFunc(all, func(id shardmap.NodeID) bool { return id == node })
		if len(rest) == 0 {
			delete(p.Pins, shard)
			continue
		}
		p.setPin(shard, shardmap.Pin{Node: rest[0]}, rest[1:])
	}
}

// writeFallbacks writes the fallbacks of one pin.
func (w *writer) writeFallbacks(nodes []shardmap.NodeID) {
	w.uint(uint64(len(nodes)))
	for _, id := range nodes {
		w.text(string(id))
	}
}

// readFallbacks decodes the output of writer.writeFallbacks: at least minCount nodes, and none for a pin to a zone.
// No node of the pin occurs twice.
func (r *reader) readFallbacks(pin shardmap.Pin, minCount uint64) []shardmap.NodeID {
	var nodes []shardmap.NodeID
	for range r.uint(minCount, MaxPinFallbacks) {
		id := r.readNode()
		if r.err == nil && (pin.Node == "" || id == pin.Node || slices.Contains(nodes, id)) {
			r.fail("a pin with a node that occurs twice, or with a zone and nodes")
		}
		nodes = append(nodes, id)
	}
	if r.err != nil {
		return nil
	}
	return nodes
}

// writePinFallbacks writes the fallbacks of all pins in the order of the shards.
func (w *writer) writePinFallbacks(fallbacks map[shardmap.Shard][]shardmap.NodeID) {
	w.uint(uint64(len(fallbacks)))
	for _, shard := range slices.Sorted(maps.Keys(fallbacks)) {
		w.uint(uint64(shard))
		w.writeFallbacks(fallbacks[shard])
	}
}

// readPinFallbacks decodes the output of writer.writePinFallbacks. pins are the pins of the policy.
func (r *reader) readPinFallbacks(pins map[shardmap.Shard]shardmap.Pin) map[shardmap.Shard][]shardmap.NodeID {
	var shard shardmap.Shard
	readShard := func() shardmap.Shard {
		shard = r.readShard()
		return shard
	}
	return readSorted(r, readShard, func() []shardmap.NodeID { return r.readFallbacks(pins[shard], 1) })
}
