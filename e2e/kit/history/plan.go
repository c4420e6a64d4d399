package history

import "slices"

// Drain is a request, by an operator or by the node itself, that a node should own no shards.
type Drain struct {
	Node string
	// From and Until are values of Now. Until is zero while the request is in force.
	From, Until int64
	// LogRange is the part of the log in which the request is in force. The zero value means that
	// it is not known.
	LogRange LogRange
}

// Cordon is a request of an operator that a node should gain no shards.
type Cordon struct {
	Node     string
	LogRange LogRange
}

// LogRange is the part of the log in which a request is in force: the entries between the indexes
// After and Before. Zero for Before means that the request is still in force. A map that is
// proposed while the request is in force must obey it. The epoch of a map is a log index, so it
// shows whether the map is in the range.
type LogRange struct{ After, Before uint64 }

// covers reports whether a map was proposed in the range.
func (r LogRange) covers(shardMap *Map) bool {
	return r.After > 0 && r.After < shardMap.Epoch && (r.Before == 0 || shardMap.Epoch < r.Before)
}

// checkPlacement checks that maps obey drains and cordons. A cordoned node may gain a shard only
// if all owners in the map are cordoned.
func (c *checker) checkPlacement() {
	for i := range c.maps {
		shardMap := &c.maps[i]
		for _, drain := range c.history.Drains {
			if drain.LogRange.covers(shardMap) && shardMap.hasOwner(drain.Node) && !c.isDrainStage(i, &drain) {
				c.report.addViolation(PlacementIgnored, "%s owns shards in the map of epoch %d, and has been drained since entry %d", drain.Node, shardMap.Epoch, drain.LogRange.After)
			}
		}
		if i == 0 {
			continue
		}
		cordoned := make(map[string]bool)
		for _, cordon := range c.history.Cordons {
			cordoned[cordon.Node] = cordoned[cordon.Node] || cordon.LogRange.covers(shardMap)
		}
		if !slices.ContainsFunc(shardMap.Owners, func(owner string) bool { return owner != "" && !cordoned[owner] }) {
			continue
		}
		for shard, owner := range shardMap.Owners {
			if previousOwner := c.maps[i-1].Owners[shard]; cordoned[owner] && previousOwner != owner {
				c.report.addViolation(PlacementIgnored, "%s gains shard %d from %q in the map of epoch %d, and is cordoned", owner, shard, previousOwner, shardMap.Epoch)
			}
		}
	}
}

// isDrainStage reports whether a map may be a stage of a drain, in which the node still owns busy
// shards and gains none. The node keeps busy shards for up to DrainTimeout, and the change from one
// map to the next takes at most as long again.
func (c *checker) isDrainStage(i int, drain *Drain) bool {
	if i == 0 || c.maps[i].At > addDuration(drain.From, c.rules.longestByAnyClock(2*c.rules.DrainTimeout)) {
		return false
	}
	for shard, node := range c.maps[i].Owners {
		if node == drain.Node && c.maps[i-1].Owners[shard] != node {
			return false
		}
	}
	return true
}

// checkRestartGrace checks that a node that restarts in place neither loses nor gains shards within
// its grace period, which starts at SIGTERM or later. It does not check restarts during another
// fault, because that may have delayed the log. After the restart, the node may give shards to
// nodes that join, and gain shards of nodes that leave.
func (c *checker) checkRestartGrace() {
	for faultIndex := range c.history.Faults {
		fault := &c.history.Faults[faultIndex]
		if fault.Kind != Terminated || fault.Grace == 0 || c.rules.SlowLog {
			continue
		}
		until := addDuration(fault.From, c.rules.shortestByAnyClock(fault.Grace))
		if c.faultyDuring(fault.From, until) || c.drainedDuring(fault.Node, fault.From, until) {
			continue
		}
		ownedShards := false
		for i := range c.maps {
			shardMap := &c.maps[i]
			switch {
			case shardMap.At <= fault.From:
				ownedShards = shardMap.hasOwner(fault.Node)
			case shardMap.At >= fault.end() && c.isJoinStage(i):
				// The node runs again, and gives busy shards to a node that joined before.
			case i > 0 && shardMap.At < until && ownedShards && !shardMap.addsNode(&c.maps[i-1]):
				mayGive := func(node string) bool {
					return shardMap.At >= fault.end() && (!shardMap.hasOwner(node) || c.isLeaving(node, fault.From, shardMap.At))
				}
				if moved := c.maps[i-1].countOwnershipChanges(shardMap, fault.Node, mayGive); moved > 0 {
					c.report.addViolation(MovedInGrace, "%d shards of %s, which restarts within %v, moved in the map of epoch %d", moved, fault.Node, fault.Grace, shardMap.Epoch)
				}
			}
		}
	}
}

// isJoinStage reports whether a map may be a later stage of a change by which a node joined. Busy
// shards move up to DrainTimeout after the idle ones, and the change from one map to the next takes
// at most as long again.
func (c *checker) isJoinStage(i int) bool {
	for first := i; first > 0 && c.maps[i].At <= addDuration(c.maps[first].At, c.rules.longestByAnyClock(2*c.rules.DrainTimeout)); first-- {
		if c.maps[first].addsNode(&c.maps[first-1]) {
			return true
		}
	}
	return false
}

// isLeaving reports whether a node was drained or terminated in an interval. It hands
// over its shards in stages, so it may own some of them until the end.
func (c *checker) isLeaving(node string, from, until int64) bool {
	return c.drainedDuring(node, from, until) || slices.ContainsFunc(c.history.Faults, func(fault Fault) bool {
		return fault.Kind == Terminated && fault.Node == node && fault.overlaps(from, until)
	})
}

// faultyDuring reports whether any fault was active in an interval. Terminated nodes do
// not count.
func (c *checker) faultyDuring(from, until int64) bool {
	for i := range c.history.Faults {
		if fault := &c.history.Faults[i]; fault.Kind != Terminated && fault.overlaps(from, until) && !c.isTooBrief(i) {
			return true
		}
	}
	return false
}

// drainedDuring reports whether a drain of the node was in force at any time of an interval. A
// restart of a drained node is no restart in place.
func (c *checker) drainedDuring(node string, from, until int64) bool {
	return slices.ContainsFunc(c.history.Drains, func(drain Drain) bool {
		return drain.Node == node && drain.From <= until && from <= neverIfZero(drain.Until)
	})
}

// addsNode reports whether a node owns shards that owned none in the map before.
func (m *Map) addsNode(before *Map) bool {
	return slices.ContainsFunc(m.Owners, func(node string) bool { return node != "" && !before.hasOwner(node) })
}

// countOwnershipChanges returns how many shards the node gained or lost from m to next. It does not
// count shards that the node gained from an owner for which mayGive returns true.
func (m *Map) countOwnershipChanges(next *Map, node string, mayGive func(owner string) bool) (count int) {
	for shard, owner := range m.Owners {
		if shard >= len(next.Owners) || (owner == node) == (next.Owners[shard] == node) {
			continue
		}
		if owner == node || !mayGive(owner) {
			count++
		}
	}
	return count
}
