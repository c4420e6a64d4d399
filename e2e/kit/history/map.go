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
	// FollowsGap reports that maps were committed before it that the test has not observed. The difference
	// from the last observed map is then more than one change.
	FollowsGap bool
}

// observationLag is the maximum time between the commit and the observation of a map.
const observationLag = int64(time.Second)

// owner returns the owner of a shard. A shard of a service that was added after the map has none.
func (m *Map) owner(shard int) string {
	if shard >= len(m.Owners) {
		return ""
	}
	return m.Owners[shard]
}

// hasNode reports whether an app instance of the node owns shards.
func (m *Map) hasNode(node string) bool {
	return slices.ContainsFunc(m.Owners, func(owner string) bool { return nodeOf(owner) == node })
}

func (m *Map) hasOwner(node string) bool { return slices.Contains(m.Owners, node) }

// mapTimeline contains the committed maps in ascending order of epoch.
type mapTimeline []Map

// newMapTimeline returns the timeline of the maps. A map is committed before the next one, so it
// existed at the latest when the next one was observed.
func newMapTimeline(maps []Map) mapTimeline {
	maps = slices.Clone(maps)
	slices.SortFunc(maps, func(a, b Map) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := len(maps) - 2; i >= 0; i-- {
		maps[i].At = min(maps[i].At, maps[i+1].At)
	}
	return maps
}

// indexAt returns the index of the map that was in force at a time. It is -1 if no map was observed until then.
func (mt mapTimeline) indexAt(at int64) int {
	after := slices.IndexFunc(mt, func(shardMap Map) bool { return shardMap.At > at })
	if after < 0 {
		after = len(mt)
	}
	return after - 1
}

// addOwners adds the owners of a shard in all maps that may have been in force in an interval.
func (mt mapTimeline) addOwners(owners map[string]bool, shard uint32, from, until int64) {
	for i := range mt {
		shardMap := &mt[i]
		replacedAt := int64(never)
		if i+1 < len(mt) {
			replacedAt = mt[i+1].At
		}
		mayBeInForce := shardMap.At <= addDuration(until, observationLag) && replacedAt >= from-observationLag
		if mayBeInForce && int(shard) < len(shardMap.Owners) {
			owners[shardMap.Owners[shard]] = true
		}
	}
}

// hasLaterOwner reports whether a map that may have been in force by a time assigned the shard of a run to
// another owner with a later epoch.
func (mt mapTimeline) hasLaterOwner(run Run, by int64) bool {
	return slices.ContainsFunc(mt, func(shardMap Map) bool {
		if shardMap.Epoch <= run.Epoch || int(run.Shard) >= len(shardMap.Owners) || shardMap.At > addDuration(by, observationLag) {
			return false
		}
		owner := shardMap.Owners[run.Shard]
		return owner != "" && owner != run.App
	})
}

// lastRegainedAt returns the last time before done at which a map assigned a shard to a node
// with this fault; 0 means that there is none.
func (mt mapTimeline) lastRegainedAt(fault *Fault, shard uint32, done int64) (at int64) {
	for i := 1; i < len(mt); i++ {
		old, next := &mt[i-1], &mt[i]
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
