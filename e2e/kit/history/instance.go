package history

import (
	"fmt"
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

// instanceChecker checks that the failure of an app instance moves only its own shards, to its siblings.
// It applies to each change of the map, also while nodes fail, drain or return:
//
//   - No shard moves between instances, except as many as an even spread over the instances of the
//     node needs. Shards that arrive at the node, or that an instance without shards has lost, come first.
//   - No shard leaves a node without a fault or drain, except as many as an even spread over the nodes needs.
//
// These limits are exact for nodes of equal weight without placement rules: the map with the even spread
// moves the minimum, and a change that defers some of its moves moves less. exclusionChecker checks that an
// instance loses all its shards only for a permitted reason.
type instanceChecker struct {
	rules      *Rules
	report     *Report
	maps       mapTimeline
	drains     []Drain
	exclusions *exclusionChecker
}

// check checks each change of the map. It cannot judge several changes together.
func (ic *instanceChecker) check() {
	if !ic.rules.SeveralInstances && len(ic.rules.Services) == 0 {
		return
	}
	for i := 1; i < len(ic.maps); i++ {
		if ic.maps[i].FollowsGap {
			continue
		}
		ic.report.JudgedMapChanges++
		change := &mapChange{before: &ic.maps[i-1], next: &ic.maps[i]}
		if len(ic.rules.Services) > 0 {
			ic.checkServices(change)
			continue
		}
		ic.checkNodes(change)
		for node := range change.next.nodes() {
			ic.checkSiblings(change, node)
		}
	}
}

// checkNodes checks how many shards move between nodes.
func (ic *instanceChecker) checkNodes(change *mapChange) {
	moves := change.newSpread(nodeOf, "")
	mayLeave := func(node string) bool { return ic.exclusions.mayLeave(node, change.next.At) }
	if moved, needed := moves.fromRemaining(mayLeave), moves.minimum(mayLeave); moved > needed {
		ic.report.addViolation(MovedNeedlessly, "%d shards left nodes without a fault in the map of epoch %d, and an even spread needs %d moves: %v", moved, change.next.Epoch, needed, moves)
	}
}

// checkSiblings checks how many shards move between the instances of a node.
func (ic *instanceChecker) checkSiblings(change *mapChange, node string) {
	moves := change.newSpread(func(app string) string { return app }, node)
	mayLeave := func(app string) bool { return moves.owned[app] == 0 || ic.isDrainedInstance(app, change.next.At) }
	if moved, needed := moves.fromRemaining(mayLeave), moves.minimum(mayLeave); moved > needed {
		ic.report.addViolation(MovedNeedlessly, "%d shards moved between other instances of %s in the map of epoch %d, and an even spread needs %d moves: %v", moved, node, change.next.Epoch, needed, moves)
	}
}

// isDrainedInstance reports whether a drain of the instance was in force shortly before a time. Its
// busy shards move later than the others.
func (ic *instanceChecker) isDrainedInstance(app string, at int64) bool {
	since := at - ic.rules.maxRoundTime()
	return slices.ContainsFunc(ic.drains, func(drain Drain) bool {
		return drain.IsInstance && drain.Node == app && drain.From <= at && since <= orNever(drain.Until)
	})
}

// nodes returns the nodes whose instances own shards.
func (m *Map) nodes() map[string]bool {
	nodes := make(map[string]bool)
	for _, owner := range m.Owners {
		if owner != "" {
			nodes[nodeOf(owner)] = true
		}
	}
	return nodes
}

// mapChange is the change from one map to the next.
type mapChange struct{ before, next *Map }

// spread describes how a change of the map distributes shards over nodes, or over the instances of one
// node. The keys of its maps are the names of these owners.
type spread struct {
	kept     map[string]int // shards that stay
	lost     map[string]int // shards that move to another of the owners
	gained   map[string]int // shards from anywhere
	owned    map[string]int // shards in the next map
	arriving int            // shards that none of the owners had before
}

// newSpread returns the spread over the nodes, or over the instances of a node if it is not empty.
// ownerOf returns the name of the node or instance for an owner in a map.
func (mc *mapChange) newSpread(ownerOf func(app string) string, node string) *spread {
	s := &spread{kept: make(map[string]int), lost: make(map[string]int), gained: make(map[string]int), owned: make(map[string]int)}
	isIncluded := func(app string) bool { return app != "" && (node == "" || nodeOf(app) == node) }
	for shard, app := range mc.next.Owners[:min(len(mc.next.Owners), len(mc.before.Owners))] {
		if !isIncluded(app) {
			continue
		}
		owner, previousApp := ownerOf(app), mc.before.Owners[shard]
		s.owned[owner]++
		switch previous := ownerOf(previousApp); {
		case !isIncluded(previousApp):
			s.gained[owner]++
			s.arriving++
		case previous == owner:
			s.kept[owner]++
		default:
			s.gained[owner]++
			s.lost[previous]++
		}
	}
	return s
}

// fromRemaining returns the number of shards that moved from owners for which mayLeave returns false.
func (s *spread) fromRemaining(mayLeave func(string) bool) (moved int) {
	for owner, lost := range s.lost {
		if !mayLeave(owner) {
			moved += lost
		}
	}
	return moved
}

// minimum returns the minimum number of moves from the owners for which mayLeave returns false, if the
// shards are then spread evenly over them and over the owners that gain shards.
func (s *spread) minimum(mayLeave func(string) bool) (moves int) {
	var counts []int // shards before the moves, without those that move anyway
	free := s.arriving
	for owner := range s.owned {
		switch {
		case !mayLeave(owner):
			counts = append(counts, s.kept[owner]+s.lost[owner])
		case s.gained[owner] > 0:
			counts = append(counts, s.kept[owner])
		}
	}
	for owner, lost := range s.lost {
		if mayLeave(owner) {
			free += lost
		}
	}
	if len(counts) == 0 {
		return 0
	}
	total := free
	for _, count := range counts {
		total += count
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	for i, count := range counts {
		target := total / len(counts)
		if i < total%len(counts) {
			target++
		}
		moves += max(0, count-target)
	}
	return moves
}

// String returns the numbers of shards for the text of a violation.
func (s *spread) String() string {
	return fmt.Sprintf("kept %v, lost %v, gained %v", s.kept, s.lost, s.gained)
}
