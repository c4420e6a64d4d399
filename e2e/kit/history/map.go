package history

import (
	"cmp"
	"slices"
	"time"
)

// Map is a committed shard map as the test observed it.
type Map struct {
	Epoch uint64
	// At is when it was first observed, which is at or after its commit.
	At int64
	// Owners are the owners by shard; empty means that the shard has no owner.
	Owners []string
}

// observationLag is the maximum time between the commit and the observation of a map.
const observationLag = int64(time.Second)

func (m *Map) hasOwner(node string) bool { return slices.Contains(m.Owners, node) }

// sortedByEpoch returns the maps in ascending order of epoch. A map is committed before the
// next one, so it existed at the latest when the next one was observed.
func sortedByEpoch(maps []Map) []Map {
	maps = slices.Clone(maps)
	slices.SortFunc(maps, func(a, b Map) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := len(maps) - 2; i >= 0; i-- {
		maps[i].At = min(maps[i].At, maps[i+1].At)
	}
	return maps
}

// checkExclusions checks that a map excludes a node only for a permitted reason.
func (c *checker) checkExclusions() {
	for i := 1; i < len(c.maps); i++ {
		old, next := &c.maps[i-1], &c.maps[i]
		checked := map[string]bool{"": true} // a shard without an owner excludes no node
		for _, node := range old.Owners {
			if checked[node] || next.hasOwner(node) {
				continue
			}
			checked[node] = true
			if !c.drainExcludes(node, next.At) && !c.faultExcludes(node, next.At) {
				c.report.addViolation(FalseExclusion, "%s owns shards in the map of epoch %d and none in that of %d, and it had no fault", node, old.Epoch, next.Epoch)
			}
		}
	}
}

// drainExcludes reports whether a drain permits that a map observed at a time excludes a node.
func (c *checker) drainExcludes(node string, observedAt int64) bool {
	return slices.ContainsFunc(c.history.Drains, func(drain Drain) bool {
		endsBy := addDuration(neverIfZero(drain.Until), c.maxRoundTime())
		return drain.Node == node && drain.From <= observedAt && observedAt <= endsBy
	})
}

// faultExcludes reports whether a fault permits that a map observed at a time excludes a node. The
// exclusion may happen until the end of the round that began during the fault. No entry can be
// committed without a majority, so the time without one is added. A node that got no CPU time sends
// no heartbeats, so its exclusion follows within DeadAfter.
func (c *checker) faultExcludes(node string, observedAt int64) bool {
	return slices.ContainsFunc(c.history.Faults, func(fault Fault) bool {
		if !fault.affects(node) || observedAt < fault.From {
			return false
		}
		maxDelay := int64(c.rules.DeadAfter)
		if fault.Kind != Stalled {
			maxDelay = c.maxRoundTime() + c.totalWithoutMajority(fault.end(), observedAt)
		}
		return observedAt <= addDuration(fault.end(), maxDelay)
	})
}

// maxRoundTime returns the maximum duration of a round, the change from one map to the next, until the
// test observes the new map. It is the sum of these times:
//   - DeadAfter
//   - the acknowledgement deadline: DrainTimeout + 1 s + ReleaseTimeout
//   - observationLag
func (c *checker) maxRoundTime() int64 {
	acknowledgedBy := c.rules.DrainTimeout + time.Second + c.rules.ReleaseTimeout
	return int64(c.rules.DeadAfter+acknowledgedBy) + observationLag
}

// owners returns the nodes that may have owned a shard at any time of an interval, according
// to the maps and to the runs.
func (c *checker) owners(shard uint32, from, until int64) map[string]bool {
	owners := make(map[string]bool)
	c.addMapOwners(owners, shard, from, until)
	c.addRunOwners(owners, shard, from, until)
	delete(owners, "")
	return owners
}

// addMapOwners adds the owners of a shard in all maps that may have been in force in an interval.
func (c *checker) addMapOwners(owners map[string]bool, shard uint32, from, until int64) {
	for i := range c.maps {
		shardMap := &c.maps[i]
		replacedAt := int64(never)
		if i+1 < len(c.maps) {
			replacedAt = c.maps[i+1].At
		}
		mayBeInForce := shardMap.At <= addDuration(until, observationLag) && replacedAt >= from-observationLag
		if mayBeInForce && int(shard) < len(shardMap.Owners) {
			owners[shardMap.Owners[shard]] = true
		}
	}
}

// addRunOwners adds the nodes that ran requests of a shard in an interval, and the last node that did so
// before.
func (c *checker) addRunOwners(owners map[string]bool, shard uint32, from, until int64) {
	previousOwner := ""
	for _, run := range c.runsByShard[shard] {
		if run.Start > until {
			break // The runs are in the order of their start.
		}
		if run.Start < from {
			previousOwner = run.App
		}
		if run.Start >= from || run.end() >= from {
			owners[run.App] = true
		}
	}
	owners[previousOwner] = true
}

// nextOwnerStart returns when another node began to run requests of a shard as its next
// owner. It counts from the start of the fault, or from the last time that the faulty
// node regained the shard: a node that receives half of its messages is excluded, joins
// again, and is excluded again.
func (c *checker) nextOwnerStart(fault *Fault, shard uint32, done int64) int64 {
	from := max(fault.From, c.lastRegainedAt(fault, shard, done))
	epochBefore := uint64(0) // highest ownership epoch up to that time
	for _, run := range c.runsByShard[shard] {
		isNextOwner := run.Epoch > epochBefore && !fault.affects(run.App)
		switch {
		case run.Start <= from:
			epochBefore = max(epochBefore, run.Epoch)
		case isNextOwner:
			return run.Start
		}
	}
	return never
}

// lastRegainedAt returns the last time before done at which a map assigned a shard to a node
// with this fault; 0 means that there is none.
func (c *checker) lastRegainedAt(fault *Fault, shard uint32, done int64) (at int64) {
	for i := 1; i < len(c.maps); i++ {
		old, next := &c.maps[i-1], &c.maps[i]
		if int(shard) >= min(len(old.Owners), len(next.Owners)) || next.At > done {
			continue
		}
		isRegained := fault.affects(next.Owners[shard]) && !fault.affects(old.Owners[shard])
		if isRegained && fault.overlaps(next.At, next.At) {
			at = next.At
		}
	}
	return at
}
