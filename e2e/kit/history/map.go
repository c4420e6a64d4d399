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

// checkExclusions checks that a map excludes a node only during a fault of that node, or until the
// end of the round that began during the fault. A round (the change from one map to the next) lasts
// for up to the sum of these times:
//   - DeadAfter
//   - the acknowledgement deadline: DrainTimeout + 1 s + ReleaseTimeout
//   - the time without a majority, in which no entry can be committed
//
// A node that got no CPU time sends no heartbeats, so its exclusion follows within DeadAfter.
func (c *checker) checkExclusions() {
	maxRoundTime := int64(c.rules.DeadAfter+c.rules.DrainTimeout+time.Second+c.rules.ReleaseTimeout) + observationLag
	for i := 1; i < len(c.maps); i++ {
		old, next := &c.maps[i-1], &c.maps[i]
		checked := make(map[string]bool)
		for _, node := range old.Owners {
			if node == "" || checked[node] || next.hasOwner(node) {
				continue
			}
			checked[node] = true
			if slices.ContainsFunc(c.history.Drains, func(drain Drain) bool {
				return drain.Node == node && drain.From <= next.At && next.At <= addDuration(neverIfZero(drain.Until), maxRoundTime)
			}) {
				continue
			}
			if !slices.ContainsFunc(c.history.Faults, func(fault Fault) bool {
				if fault.Kind == Stalled {
					return fault.affects(node) && fault.From <= next.At && next.At <= addDuration(fault.end(), int64(c.rules.DeadAfter))
				}
				return fault.affects(node) && fault.From <= next.At && next.At <= addDuration(fault.end(), maxRoundTime+c.totalWithoutMajority(fault.end(), next.At))
			}) {
				c.report.addViolation(FalseExclusion, "%s owns shards in the map of epoch %d and none in that of %d, and it had no fault", node, old.Epoch, next.Epoch)
			}
		}
	}
}

// owners returns the nodes that may have owned a shard at any time of an interval, according
// to the maps and to the runs.
func (c *checker) owners(shard uint32, from, until int64) map[string]bool {
	owners := make(map[string]bool)
	for i := range c.maps {
		shardMap := &c.maps[i]
		next := int64(never)
		if i+1 < len(c.maps) {
			next = c.maps[i+1].At
		}
		if shardMap.At <= addDuration(until, observationLag) && next >= from-observationLag && int(shard) < len(shardMap.Owners) {
			owners[shardMap.Owners[shard]] = true
		}
	}
	previousOwner := ""
	for _, run := range c.runsByShard[shard] {
		switch {
		case run.Start > until:
		case run.Start < from:
			previousOwner = run.App
			if run.end() >= from {
				owners[run.App] = true
			}
		default:
			owners[run.App] = true
		}
	}
	owners[previousOwner] = true
	delete(owners, "")
	return owners
}

// nextOwnerStart returns when another node began to run requests of a shard as its next
// owner. It counts from the start of the fault, or from the last time that the faulty
// node regained the shard: a node that receives half of its messages is excluded, joins
// again, and is excluded again.
func (c *checker) nextOwnerStart(fault *Fault, shard uint32, done int64) int64 {
	from, epoch := max(fault.From, c.lastRegainedAt(fault, shard, done)), uint64(0)
	for _, run := range c.runsByShard[shard] {
		switch {
		case run.Start <= from:
			epoch = max(epoch, run.Epoch)
		case run.Epoch > epoch && !fault.affects(run.App):
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
		if int(shard) >= min(len(old.Owners), len(next.Owners)) || !fault.overlaps(next.At, next.At) || next.At > done {
			continue
		}
		if fault.affects(next.Owners[shard]) && !fault.affects(old.Owners[shard]) {
			at = next.At
		}
	}
	return at
}
