package history

import "slices"

// exclusionChecker checks that a map excludes a node only for a permitted reason, and that maps exclude a node that only
// the leader reaches.
type exclusionChecker struct {
	rules    *Rules
	report   *Report
	maps     mapTimeline
	drains   []Drain
	faults   *faultTimeline
	majority *majority
}

// check checks all maps.
func (ec *exclusionChecker) check() {
	ec.checkReasons()
	for i := range ec.faults.all {
		if fault := &ec.faults.all[i]; fault.ReachedByLeader {
			ec.checkUnreachable(fault)
		}
	}
}

// checkUnreachable checks that the leader excluded a node that most other nodes could not reach, and that the node owned
// no shards until the network was restored. Another fault may make the leader begin again, or count as the failure of
// the network, so checkUnreachable ends at the next fault.
func (ec *exclusionChecker) checkUnreachable(fault *Fault) {
	mapIndex := ec.maps.indexAt(fault.From)
	if mapIndex < 0 || !ec.maps[mapIndex].hasNode(fault.Node) {
		return
	}
	checkedUntil := min(orNever(fault.RestoredAt), fault.end(), ec.faults.nextFaultAfter(fault, &ec.maps[mapIndex]))
	excludedAt := int64(never)
	for i := mapIndex + 1; i < len(ec.maps) && ec.maps[i].At <= checkedUntil; i++ {
		shardMap := &ec.maps[i]
		switch {
		case !shardMap.hasNode(fault.Node):
			excludedAt = min(excludedAt, shardMap.At)
		case excludedAt != never:
			ec.report.addViolation(MissedExclusion, "%s owns shards again in the map of epoch %d, and only the leader reaches it", fault.Node, shardMap.Epoch)
		}
	}
	if deadline := addDuration(fault.From, int64(ec.rules.MaxExclusionTime())); deadline <= checkedUntil && deadline < excludedAt {
		ec.report.addViolation(MissedExclusion, "%s still owns shards %v after the start of its fault, and only the leader reaches it", fault.Node, ec.rules.MaxExclusionTime())
	}
}

// checkReasons checks that a map excludes a node only for a permitted reason.
func (ec *exclusionChecker) checkReasons() {
	for i := 1; i < len(ec.maps); i++ {
		old, next := &ec.maps[i-1], &ec.maps[i]
		checked := map[string]bool{"": true} // a shard without an owner excludes no node
		for _, node := range old.Owners {
			if checked[node] || next.hasOwner(node) {
				continue
			}
			checked[node] = true
			if !ec.mayLeave(node, next.At) {
				ec.report.addViolation(FalseExclusion, "%s owns shards in the map of epoch %d and none in that of %d, and it had no fault", node, old.Epoch, next.Epoch)
			}
		}
	}
}

// mayLeave reports whether a node or an app instance may lose shards in a map observed at a time, because
// it had a fault or was drained.
func (ec *exclusionChecker) mayLeave(node string, observedAt int64) bool {
	return ec.drainExcludes(node, observedAt) || ec.faultExcludes(node, observedAt)
}

// drainExcludes reports whether a drain permits that a map observed at a time excludes a node.
func (ec *exclusionChecker) drainExcludes(node string, observedAt int64) bool {
	return slices.ContainsFunc(ec.drains, func(drain Drain) bool {
		endsBy := addDuration(orNever(drain.Until), ec.rules.maxRoundTime())
		return drain.drains(node) && drain.From <= observedAt && observedAt <= endsBy
	})
}

// faultExcludes reports whether a fault permits that a map observed at a time excludes a node. The
// exclusion may happen until the end of the round that began during the fault. No entry can be
// committed without a majority, so the time without one is added. A node that got no CPU time sends
// no heartbeats, so its exclusion follows within DeadAfter.
func (ec *exclusionChecker) faultExcludes(node string, observedAt int64) bool {
	return slices.ContainsFunc(ec.faults.all, func(fault Fault) bool {
		if !fault.affects(node) || observedAt < fault.From {
			return false
		}
		maxDelay := int64(ec.rules.DeadAfter)
		if fault.Kind != Stalled {
			maxDelay = ec.rules.maxRoundTime() + ec.majority.totalWithout(fault.end(), observedAt)
		}
		return observedAt <= addDuration(fault.end(), maxDelay)
	})
}
