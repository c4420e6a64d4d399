package history

import "slices"

// Drain is a node that should own no shards, at the request of an operator or of the node
// itself, and the time of that request. Until is 0 while the request is in force.
type Drain struct {
	Node        string
	From, Until int64
	// LogRange are the log entries of the request. Zero means that they are not known.
	LogRange LogRange
}

// Cordon is a node that should gain no shards, at the request of an operator.
type Cordon struct {
	Node     string
	LogRange LogRange
}

// LogRange is the part of the log in which a request is in force: after Since and before
// Till. Till 0 means that it is still in force. Maps that are proposed in it have epochs
// within this range, and must obey the request.
type LogRange struct{ After, Before uint64 }

func (e LogRange) covers(shardMap *Map) bool {
	return e.After > 0 && e.After < shardMap.Epoch && (e.Before == 0 || shardMap.Epoch < e.Before)
}

// checkPlacement checks that maps obey drains and cordons. A cordoned node may gain a
// shard only if all owners are cordoned.
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

// isDrainStage reports whether a map may be a stage of a drain. The node keeps busy
// shards for up to DrainTimeout, and the round takes at most as long.
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

// checkRestartGrace checks that a node that restarts in place neither loses nor gains
// shards before its announced time. The grace period starts at SIGTERM or later. Another
// fault may have delayed the log, so such restarts are not checked. A node that is back
// gives shards to nodes that join meanwhile, and gains shards of nodes that leave.
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
				// The node is back, and gives busy shards to a node that joined before.
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

// isJoinStage reports whether a map may be a later stage of a change by which a node
// joined. Busy shards move up to DrainTimeout after the idle ones, and the round takes at
// most as long.
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

// drainedDuring reports whether a drain of the node was in force in an interval. That is
// no longer a restart in place.
func (c *checker) drainedDuring(node string, from, until int64) bool {
	return slices.ContainsFunc(c.history.Drains, func(drain Drain) bool {
		return drain.Node == node && drain.From <= until && from <= neverIfZero(drain.Until)
	})
}

// addsNode reports whether a node owns shards that owned none in the map before.
func (m *Map) addsNode(before *Map) bool {
	return slices.ContainsFunc(m.Owners, func(node string) bool { return node != "" && !before.hasOwner(node) })
}

// countOwnershipChanges returns how many shards the node owns in only one of two maps. It does not
// count shards that the node gained from an owner for which gives returns true.
func (m *Map) countOwnershipChanges(other *Map, node string, mayGive func(owner string) bool) (n int) {
	for s, owner := range m.Owners {
		if s >= len(other.Owners) || (owner == node) == (other.Owners[s] == node) {
			continue
		}
		if owner == node || !mayGive(owner) {
			n++
		}
	}
	return n
}
