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

// checkPlacement checks that maps obey drains and cordons.
func (c *checker) checkPlacement() {
	for i := range c.maps {
		c.checkDrains(i)
		if i > 0 {
			c.checkCordons(&c.maps[i-1], &c.maps[i])
		}
	}
}

// checkDrains checks that a drained node owns no shard in the map with this index.
func (c *checker) checkDrains(mapIndex int) {
	shardMap := &c.maps[mapIndex]
	for _, drain := range c.history.Drains {
		ownsShards := drain.LogRange.covers(shardMap) && shardMap.hasOwner(drain.Node)
		if ownsShards && !c.isDrainStage(mapIndex, &drain) {
			c.report.addViolation(PlacementIgnored, "%s owns shards in the map of epoch %d, and has been drained since entry %d", drain.Node, shardMap.Epoch, drain.LogRange.After)
		}
	}
}

// checkCordons checks that a cordoned node gains no shard in a map, compared with the map before. If all
// owners are cordoned, they may gain shards.
func (c *checker) checkCordons(before, shardMap *Map) {
	cordoned := make(map[string]bool)
	for _, cordon := range c.history.Cordons {
		if cordon.LogRange.covers(shardMap) {
			cordoned[cordon.Node] = true
		}
	}
	isFree := func(owner string) bool { return owner != "" && !cordoned[owner] }
	if !slices.ContainsFunc(shardMap.Owners, isFree) {
		return
	}
	for shard, owner := range shardMap.Owners {
		previousOwner := before.Owners[shard]
		if cordoned[owner] && previousOwner != owner {
			c.report.addViolation(PlacementIgnored, "%s gains shard %d from %q in the map of epoch %d, and is cordoned", owner, shard, previousOwner, shardMap.Epoch)
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
// fault, because that may have delayed the log.
func (c *checker) checkRestartGrace() {
	if c.rules.SlowLog {
		return
	}
	for i := range c.history.Faults {
		restart := &c.history.Faults[i]
		if restart.Kind != Terminated || restart.Grace == 0 {
			continue
		}
		graceEnd := addDuration(restart.From, c.rules.shortestByAnyClock(restart.Grace))
		if !c.faultyDuring(restart.From, graceEnd) && !c.drainedDuring(restart.Node, restart.From, graceEnd) {
			c.checkMovesInGrace(restart, graceEnd)
		}
	}
}

// checkMovesInGrace checks the maps between a SIGTERM of a node that owned shards and the end of its
// grace period. After the restart, the node may give shards to nodes that join, and gain shards of nodes
// that leave.
func (c *checker) checkMovesInGrace(restart *Fault, graceEnd int64) {
	ownedShards := false // at the time of the SIGTERM
	for i := range c.maps {
		shardMap := &c.maps[i]
		if shardMap.At <= restart.From {
			ownedShards = shardMap.hasOwner(restart.Node)
			continue
		}
		if i == 0 || shardMap.At >= graceEnd || !ownedShards {
			continue
		}
		runsAgain := shardMap.At >= restart.end()
		nodeJoins := shardMap.addsNode(&c.maps[i-1]) || runsAgain && c.isJoinStage(i)
		if nodeJoins {
			continue
		}
		mayGive := func(node string) bool {
			return runsAgain && (!shardMap.hasOwner(node) || c.isLeaving(node, restart.From, shardMap.At))
		}
		if moved := c.maps[i-1].countOwnershipChanges(shardMap, restart.Node, mayGive); moved > 0 {
			c.report.addViolation(MovedInGrace, "%d shards of %s, which restarts within %v, moved in the map of epoch %d", moved, restart.Node, restart.Grace, shardMap.Epoch)
		}
	}
}

// isJoinStage reports whether the map with index i may be a later stage of a change by which a node
// joined. Busy shards move up to DrainTimeout after the idle ones, and the change from one map to the next takes
// at most as long again.
func (c *checker) isJoinStage(i int) bool {
	maxDelay := c.rules.longestByAnyClock(2 * c.rules.DrainTimeout)
	for first := i; first > 0; first-- {
		if c.maps[i].At > addDuration(c.maps[first].At, maxDelay) {
			return false
		}
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
		fault := &c.history.Faults[i]
		if fault.Kind != Terminated && fault.overlaps(from, until) && !c.isTooBrief(i) {
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
	for shard, owner := range m.Owners[:min(len(m.Owners), len(next.Owners))] {
		owned, owns := owner == node, next.Owners[shard] == node
		isLost := owned && !owns
		isGained := !owned && owns
		if isLost || isGained && !mayGive(owner) {
			count++
		}
	}
	return count
}
