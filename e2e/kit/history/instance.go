package history

import (
	"maps"
	"slices"
	"strings"
)

// A node may have several app instances. The first one has the ID of the node, as an app without
// siblings, and another one has the name NODE/INSTANCE. Runs and the owners in maps have these names.
// A fault or a request of an operator for a node applies to all its instances.

// nodeOf returns the ID of the node of an app instance.
func nodeOf(app string) string {
	node, _, _ := strings.Cut(app, "/")
	return node
}

// isInstanceFault reports whether the fault affects one app instance, and not its node.
func (f *Fault) isInstanceFault() bool { return f.Kind == AppDown || f.Kind == AppHung }

// drains reports whether the drain applies to the app.
func (d *Drain) drains(app string) bool {
	return d.Node == app || d.Node == nodeOf(app) && !d.IsInstance
}

// instanceChecker checks that the failure of an app instance moves only its own shards, to its
// siblings.
type instanceChecker struct {
	rules  *Rules
	report *Report
	maps   mapTimeline
	drains []Drain
	faults *faultTimeline
}

// check checks each change of the map that no fault, restart or drain of a node explains.
func (ic *instanceChecker) check() {
	if !ic.rules.SeveralInstances {
		return
	}
	for i := 1; i < len(ic.maps); i++ {
		before, next := &ic.maps[i-1], &ic.maps[i]
		nodes := next.nodes()
		if !maps.Equal(before.nodes(), nodes) || ic.nodeChanged(nodes, next.At) {
			continue
		}
		for shard, owner := range next.Owners[:min(len(next.Owners), len(before.Owners))] {
			if previous := before.Owners[shard]; previous != owner && !ic.mayMove(previous, owner, next.At) {
				ic.report.addViolation(MovedNeedlessly, "shard %d moved from %s to %s in the map of epoch %d, and no instance of the two has failed or was drained", shard, previous, owner, next.Epoch)
			}
		}
	}
}

// nodes returns the nodes whose instances own shards.
func (m *Map) nodes() map[string]bool {
	nodes := make(map[string]bool)
	for _, owner := range m.Owners {
		nodes[nodeOf(owner)] = true
	}
	return nodes
}

// nodeChanged reports whether one of the nodes had a fault, was terminated or was drained shortly before a map was
// observed. A pause shorter than a lease moves no shard.
func (ic *instanceChecker) nodeChanged(nodes map[string]bool, at int64) bool {
	since := at - ic.rules.maxRoundTime()
	return slices.ContainsFunc(ic.faults.activeFaults(since, at), func(fault *Fault) bool { return !fault.isInstanceFault() && fault.affectsAny(nodes) }) ||
		slices.ContainsFunc(ic.drains, func(drain Drain) bool { return !drain.IsInstance && drain.overlaps(since, at) })
}

// mayMove reports whether a shard may move between two instances: they are siblings, and the previous
// owner has failed or was drained shortly before, or the next owner returns after that.
func (ic *instanceChecker) mayMove(previous, next string, at int64) bool {
	if nodeOf(previous) != nodeOf(next) {
		return false
	}
	since := at - ic.rules.maxRoundTime()
	return slices.ContainsFunc(ic.faults.all, func(fault Fault) bool {
		return fault.isInstanceFault() && (fault.Node == previous && fault.overlaps(since, at) || fault.Node == next && fault.From <= at)
	}) || slices.ContainsFunc(ic.drains, func(drain Drain) bool {
		return drain.IsInstance && (drain.Node == previous && drain.overlaps(since, at) || drain.Node == next && drain.From <= at)
	})
}

// overlaps reports whether the drain was in force at any time of an interval.
func (d *Drain) overlaps(from, until int64) bool { return d.From <= until && from <= orNever(d.Until) }
