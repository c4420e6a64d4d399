package history

import "slices"

// Drain is a request, by an operator or by the node itself, that a node should own no shards.
type Drain struct {
	Node string
	// IsInstance reports that Node is the name of an app instance. The first instance of a node has the
	// same name as its node.
	IsInstance bool
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

// placementChecker checks that maps obey drains, cordons and the grace periods of restarts.
type placementChecker struct {
	rules   *Rules
	report  *Report
	maps    mapTimeline
	drains  []Drain
	cordons []Cordon
	faults  *faultTimeline
}

// check checks all maps.
func (pc *placementChecker) check() {
	for i := range pc.maps {
		pc.checkDrains(i)
		if i > 0 {
			pc.checkCordons(&pc.maps[i-1], &pc.maps[i])
		}
	}
	pc.checkRestartGrace()
}

// checkDrains checks that a drained node owns no shard in the map with this index.
func (pc *placementChecker) checkDrains(mapIndex int) {
	shardMap := &pc.maps[mapIndex]
	for i := range pc.drains {
		drain := &pc.drains[i]
		ownsShards := drain.LogRange.covers(shardMap) && slices.ContainsFunc(shardMap.Owners, drain.drains)
		if ownsShards && !pc.isDrainStage(mapIndex, drain) {
			pc.report.addViolation(PlacementIgnored, "%s owns shards in the map of epoch %d, and has been drained since entry %d", drain.Node, shardMap.Epoch, drain.LogRange.After)
		}
	}
}

// checkCordons checks that a cordoned node gains no shard in a map, compared with the map before. If all
// owners are cordoned, they may gain shards.
func (pc *placementChecker) checkCordons(before, shardMap *Map) {
	cordoned := make(map[string]bool)
	for _, cordon := range pc.cordons {
		if cordon.LogRange.covers(shardMap) {
			cordoned[cordon.Node] = true
		}
	}
	isFree := func(owner string) bool { return owner != "" && !cordoned[nodeOf(owner)] }
	if !slices.ContainsFunc(shardMap.Owners, isFree) {
		return
	}
	for shard, owner := range shardMap.Owners {
		previousOwner := before.owner(shard)
		if cordoned[nodeOf(owner)] && nodeOf(previousOwner) != nodeOf(owner) {
			pc.report.addViolation(PlacementIgnored, "%s gains shard %d from %q in the map of epoch %d, and is cordoned", owner, shard, previousOwner, shardMap.Epoch)
		}
	}
}

// isDrainStage reports whether a map may be a stage of a drain, in which the node still owns busy
// shards and gains none. The node keeps busy shards for up to DrainTimeout, and the change from one
// map to the next takes at most as long again.
func (pc *placementChecker) isDrainStage(i int, drain *Drain) bool {
	if i == 0 || pc.maps[i].At > addDuration(drain.From, pc.rules.longestByAnyClock(2*pc.rules.DrainTimeout)) {
		return false
	}
	for shard, owner := range pc.maps[i].Owners {
		if drain.drains(owner) && !drain.drains(pc.maps[i-1].owner(shard)) {
			return false
		}
	}
	return true
}

// checkRestartGrace checks that a node that restarts in place neither loses nor gains shards within
// its grace period, which starts at SIGTERM or later. It does not check restarts during another
// fault, because that may have delayed the log.
func (pc *placementChecker) checkRestartGrace() {
	if pc.rules.SlowLog {
		return
	}
	for i := range pc.faults.all {
		restart := &pc.faults.all[i]
		if restart.Kind != Terminated || restart.Grace == 0 {
			continue
		}
		graceEnd := addDuration(restart.From, pc.rules.shortestByAnyClock(restart.Grace))
		if !pc.faults.anyActive(restart.From, graceEnd) && !pc.drainedDuring(restart.Node, restart.From, graceEnd) {
			pc.checkMovesInGrace(restart, graceEnd)
		}
	}
}

// checkMovesInGrace checks the maps between a SIGTERM of a node that owned shards and the end of its
// grace period. After the restart, the node may give shards to nodes that join, and gain shards of nodes
// that leave.
func (pc *placementChecker) checkMovesInGrace(restart *Fault, graceEnd int64) {
	ownedShards := false // at the time of the SIGTERM
	for i := range pc.maps {
		shardMap := &pc.maps[i]
		if shardMap.At <= restart.From {
			ownedShards = shardMap.hasNode(restart.Node)
			continue
		}
		if i == 0 || shardMap.At >= graceEnd || !ownedShards {
			continue
		}
		runsAgain := shardMap.At >= restart.end()
		nodeJoins := shardMap.addsNode(&pc.maps[i-1]) || runsAgain && pc.isJoinStage(i)
		if nodeJoins {
			continue
		}
		mayGive := func(node string) bool {
			return runsAgain && (!shardMap.hasNode(node) || pc.isLeaving(node, restart.From, shardMap.At))
		}
		if moved := pc.maps[i-1].countOwnershipChanges(shardMap, restart.Node, mayGive); moved > 0 {
			pc.report.addViolation(MovedInGrace, "%d shards of %s, which restarts within %v, moved in the map of epoch %d", moved, restart.Node, restart.Grace, shardMap.Epoch)
		}
	}
}

// isJoinStage reports whether the map with index i may be a later stage of a change by which a node
// joined. Busy shards move up to DrainTimeout after the idle ones, and the change from one map to the next takes
// at most as long again.
func (pc *placementChecker) isJoinStage(i int) bool {
	maxDelay := pc.rules.longestByAnyClock(2 * pc.rules.DrainTimeout)
	for first := i; first > 0; first-- {
		if pc.maps[i].At > addDuration(pc.maps[first].At, maxDelay) {
			return false
		}
		if pc.maps[first].addsNode(&pc.maps[first-1]) {
			return true
		}
	}
	return false
}

// isLeaving reports whether a node was drained or terminated in an interval. It hands
// over its shards in stages, so it may own some of them until the end.
func (pc *placementChecker) isLeaving(node string, from, until int64) bool {
	return pc.drainedDuring(node, from, until) || slices.ContainsFunc(pc.faults.all, func(fault Fault) bool {
		return fault.Kind == Terminated && fault.Node == node && fault.overlaps(from, until)
	})
}

// drainedDuring reports whether a drain of the node was in force at any time of an interval. A
// restart of a drained node is no restart in place.
func (pc *placementChecker) drainedDuring(node string, from, until int64) bool {
	return slices.ContainsFunc(pc.drains, func(drain Drain) bool {
		return drain.Node == node && drain.From <= until && from <= orNever(drain.Until)
	})
}

// addsNode reports whether a node owns shards that owned none in the map before.
func (m *Map) addsNode(before *Map) bool {
	return slices.ContainsFunc(m.Owners, func(owner string) bool { return owner != "" && !before.hasNode(nodeOf(owner)) })
}

// countOwnershipChanges returns how many shards the node gained or lost from m to next, or moved between
// its app instances. It does not count shards that the node gained from a node for which mayGive returns
// true. Such gains can require moves between the instances, which instanceChecker judges.
func (m *Map) countOwnershipChanges(next *Map, node string, mayGive func(node string) bool) (count int) {
	hasPermittedGains, movedWithin := false, 0
	for shard, owner := range m.Owners[:min(len(m.Owners), len(next.Owners))] {
		owned, owns := nodeOf(owner) == node, nodeOf(next.Owners[shard]) == node
		switch {
		case owned && owns && owner != next.Owners[shard]:
			movedWithin++
		case owned == owns:
		case owns && mayGive(nodeOf(owner)):
			hasPermittedGains = true
		default:
			count++
		}
	}
	if !hasPermittedGains {
		count += movedWithin
	}
	return count
}
