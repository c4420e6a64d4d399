package history

import (
	"cmp"
	"slices"
	"time"
)

// Map is a committed shard map, as somebody saw it.
type Map struct {
	Epoch uint64
	// At is when it was first seen, which is at or after its commit.
	At int64
	// Owners are the owners by shard, empty for none.
	Owners []string
}

// sightLag is how much later than its commit a map may have been seen.
const sightLag = int64(time.Second)

func (m *Map) has(node string) bool { return slices.Contains(m.Owners, node) }

// ordered are the maps in the order of their epochs. A map is committed before the
// next one, so it was there at the latest when that one was seen.
func ordered(maps []Map) []Map {
	maps = slices.Clone(maps)
	slices.SortFunc(maps, func(a, b Map) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := len(maps) - 2; i >= 0; i-- {
		maps[i].At = min(maps[i].At, maps[i+1].At)
	}
	return maps
}

// drops judges that nobody is left out of a map without a fault of its own. Dropped
// after a fault it may be until whatever was begun meanwhile has come to its end:
// dead-after, and the deadline of acknowledgements, drain-timeout + 1 s + release-timeout, and what it
// waited for a majority: the log may hold a commit for all of that time. A node for
// which a busy machine had no time is dropped for its silence, within dead-after.
func (j *judge) drops() {
	late := int64(j.rules.DeadAfter+j.rules.DrainTimeout+time.Second+j.rules.ReleaseTimeout) + sightLag
	for i := 1; i < len(j.maps); i++ {
		old, next := &j.maps[i-1], &j.maps[i]
		seen := make(map[string]bool)
		for _, node := range old.Owners {
			if node == "" || seen[node] || next.has(node) {
				continue
			}
			seen[node] = true
			if slices.ContainsFunc(j.h.Drains, func(d Drain) bool {
				return d.Node == node && d.From <= next.At && next.At <= after(orNever(d.Until), late)
			}) {
				continue
			}
			if !slices.ContainsFunc(j.h.Faults, func(f Fault) bool {
				if f.Kind == Stalled {
					return f.touches(node) && f.From <= next.At && next.At <= after(f.until(), int64(j.rules.DeadAfter))
				}
				return f.touches(node) && f.From <= next.At && next.At <= after(f.until(), late+j.headless(f.until(), next.At))
			}) {
				j.report.add(FalseDrop, "%s owns shards in the map of epoch %d and none in that of %d, and nothing had been done to it", node, old.Epoch, next.Epoch)
			}
		}
	}
}

// owners are who may have owned a shard at any time of an interval: by the maps,
// and by who ran what.
func (j *judge) owners(shard uint32, from, until int64) map[string]bool {
	owners := make(map[string]bool)
	for i := range j.maps {
		m := &j.maps[i]
		next := int64(never)
		if i+1 < len(j.maps) {
			next = j.maps[i+1].At
		}
		if m.At <= after(until, sightLag) && next >= from-sightLag && int(shard) < len(m.Owners) {
			owners[m.Owners[shard]] = true
		}
	}
	before := ""
	for _, run := range j.shards[shard] {
		switch {
		case run.Start > until:
		case run.Start < from:
			before = run.App
			if run.end() >= from {
				owners[run.App] = true
			}
		default:
			owners[run.App] = true
		}
	}
	owners[before] = true
	delete(owners, "")
	return owners
}

// servedAgain is when another node began to run requests of a shard, as its next
// owner, after something was done to its owner, and after that one got it back last: who
// hears half of what it is told is dropped, joins again, and is dropped again.
func (j *judge) servedAgain(f *Fault, shard uint32, done int64) int64 {
	from, epoch := max(f.From, j.backAt(f, shard, done)), uint64(0)
	for _, run := range j.shards[shard] {
		switch {
		case run.Start <= from:
			epoch = max(epoch, run.Epoch)
		case run.Epoch > epoch && !f.touches(run.App):
			return run.Start
		}
	}
	return never
}

// backAt is when a map gave a shard to a node while something was done to it, for the last
// time before done; 0: none did.
func (j *judge) backAt(f *Fault, shard uint32, done int64) (at int64) {
	for i := 1; i < len(j.maps); i++ {
		old, m := &j.maps[i-1], &j.maps[i]
		if int(shard) >= min(len(old.Owners), len(m.Owners)) || !f.during(m.At, m.At) || m.At > done {
			continue
		}
		if f.touches(m.Owners[shard]) && !f.touches(old.Owners[shard]) {
			at = m.At
		}
	}
	return at
}
