package shardmap_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"shardway/shardmap"
)

// reference computes what a policy permits, independently of Assign: shard by shard, with
// floating-point numbers, and by exhaustive search.
type reference struct {
	prev    *shardmap.Map
	members []shardmap.Member // members that may own shards
	p       shardmap.Policy
	// open contains the members that can receive shards.
	open map[shardmap.NodeID]bool
	let  map[shardmap.Shard]bool // shards that emptying members release
	held bool                    // each shard stays with its owner
}

func newReference(prev *shardmap.Map, members []shardmap.Member, p shardmap.Policy) reference {
	w := reference{prev: prev, p: p, open: map[shardmap.NodeID]bool{}, held: p.Paused}
	w.asGraduallyDrained()
	w.emptied(members)
	p = w.p
	for _, mb := range members {
		if p.Drained[mb.ID] && !p.Restarting[mb.ID] {
			continue
		}
		if weight := p.Weights[mb.ID]; weight > 0 {
			mb.Weight = weight
		}
		w.members = append(w.members, mb)
		if !p.Cordoned[mb.ID] && !p.Restarting[mb.ID] {
			w.open[mb.ID] = true
		}
	}
	if len(w.open) == 0 {
		w.held = true
		for _, mb := range w.members {
			if w.here(mb.ID) {
				w.open[mb.ID] = true
			}
		}
	}
	return w
}

// asGraduallyDrained replaces emptied members by gradually drained ones without a busy shard.
func (w *reference) asGraduallyDrained() {
	drained, idle := maps.Clone(w.p.GraduallyDrained), maps.Clone(w.p.IdleShards)
	for id := range w.p.Emptied {
		if drained[id] {
			continue
		}
		if drained == nil {
			drained = map[shardmap.NodeID]bool{}
		}
		if idle == nil {
			idle = map[shardmap.Shard]bool{}
		}
		drained[id] = true
		for s := range w.prev.Shards(id) {
			idle[s] = !w.p.Paused
		}
	}
	w.p.GraduallyDrained, w.p.IdleShards = drained, idle
}

// emptied replaces emptying members: their released idle shards count as orphaned, and for all
// other shards the member counts as absent.
func (w *reference) emptied(members []shardmap.Member) {
	others := slices.ContainsFunc(members, func(mb shardmap.Member) bool {
		return !w.p.Restarting[mb.ID] && !w.p.GraduallyDrained[mb.ID] && !w.p.Drained[mb.ID]
	})
	w.let = map[shardmap.Shard]bool{}
	for s := range shardmap.Shard(w.prev.Len()) {
		id := w.prev.Owner(s)
		w.let[s] = others && w.p.IdleShards[s] && w.p.GraduallyDrained[id] && !w.p.Restarting[id] && !w.p.Drained[id]
	}
	absent := map[shardmap.NodeID]bool{}
	for _, mb := range members {
		absent[mb.ID] = w.p.Restarting[mb.ID] || w.p.GraduallyDrained[mb.ID] && !w.p.Drained[mb.ID]
	}
	w.p.Restarting = absent
}

// owner returns the previous owner of a shard, or "" if the shard is released.
func (w reference) owner(s shardmap.Shard) shardmap.NodeID {
	if w.let[s] {
		return ""
	}
	return w.prev.Owner(s)
}

// here reports whether id is a member that takes part in the placement.
func (w reference) here(id shardmap.NodeID) bool { return w.has(id) && !w.p.Restarting[id] }

func (w reference) has(id shardmap.NodeID) bool {
	return slices.ContainsFunc(w.members, func(mb shardmap.Member) bool { return mb.ID == id })
}

// stage returns the node that shard s must be on, or the zone that it is spread over. Both are
// empty if any member can own it.
func (w reference) stage(s shardmap.Shard) (node shardmap.NodeID, zone string) {
	owner := w.owner(s)
	if !w.has(owner) {
		owner = ""
	}
	pin, ok := w.p.Pins[s]
	switch {
	case w.p.Restarting[owner], w.held && owner != "":
		return owner, ""
	case !ok:
		return "", ""
	case pin.Node != "":
		for _, id := range append([]shardmap.NodeID{pin.Node}, w.p.PinFallbacks[s]...) {
			if w.open[id] || owner == id {
				return id, ""
			}
		}
		return "", ""
	}
	for _, mb := range w.members {
		if _, known := w.p.Zones[mb.ID]; !known && w.here(mb.ID) && owner != "" {
			return owner, ""
		}
	}
	for _, mb := range w.members {
		if w.open[mb.ID] && w.p.Zones[mb.ID] == pin.Zone {
			return "", pin.Zone
		}
	}
	if owner != "" && w.p.Zones[owner] == pin.Zone {
		return owner, ""
	}
	return "", ""
}

// check fails the test if got violates a guarantee. If try is true, it also compares the number of
// moves with an exhaustive search.
func (w reference) check(t *testing.T, got *shardmap.Map, try bool) {
	t.Helper()
	checkConsistent(t, got)
	if len(got.Members()) != len(w.members) {
		t.Fatalf("members %v, want %v", got.Members(), w.members)
	}
	w.checkOwners(t, got, try)
}

// checkOwners is like check, but got may have further members.
func (w reference) checkOwners(t *testing.T, got *shardmap.Map, try bool) {
	t.Helper()
	if got.Len() != w.prev.Len() || got.Epoch() != w.prev.Epoch() {
		t.Fatalf("%d shards at epoch %d, want %d at %d", got.Len(), got.Epoch(), w.prev.Len(), w.prev.Epoch())
	}
	if len(w.members) == 0 {
		if got.OrphanCount() != got.Len() {
			t.Fatalf("%d orphans without members, want all", got.OrphanCount())
		}
		return
	}
	placed := map[shardmap.NodeID]int{}
	zones := map[string][]shardmap.Shard{}
	for s := range shardmap.Shard(got.Len()) {
		owner := got.Owner(s)
		if owner == "" {
			if slices.ContainsFunc(w.members, func(mb shardmap.Member) bool { return w.here(mb.ID) }) {
				t.Fatalf("shard %d is orphaned", s)
			}
			if was := w.owner(s); w.has(was) {
				t.Fatalf("shard %d is orphaned, %q has it", s, was)
			}
			continue
		}
		if owner != w.owner(s) && !w.open[owner] {
			t.Fatalf("shard %d went from %q to %q, which must not receive shards", s, w.owner(s), owner)
		}
		node, zone := w.stage(s)
		switch {
		case node != "":
			placed[node]++
			if owner != node {
				t.Fatalf("shard %d is with %q, want %q", s, owner, node)
			}
		default:
			zones[zone] = append(zones[zone], s)
		}
	}
	rest := zones[""]
	delete(zones, "")
	for zone, shards := range zones {
		w.checkStage(t, got, shards, func(id shardmap.NodeID) bool { return w.here(id) && w.p.Zones[id] == zone }, placed, try)
	}
	for _, shards := range zones {
		for _, s := range shards {
			placed[got.Owner(s)]++
		}
	}
	w.checkStage(t, got, rest, w.here, placed, try)
}

// checkStage checks the shards that are spread together over the members for which in returns true.
func (w reference) checkStage(t *testing.T, got *shardmap.Map, shards []shardmap.Shard, in func(shardmap.NodeID) bool, placed map[shardmap.NodeID]int, try bool) {
	t.Helper()
	st := stage{reference: w, shards: shards, placed: placed}
	for _, mb := range w.members {
		if in(mb.ID) {
			st.members = append(st.members, mb)
		}
	}
	as := make([]shardmap.NodeID, len(shards))
	moves := 0
	for i, s := range shards {
		if as[i] = got.Owner(s); !in(as[i]) {
			t.Fatalf("shard %d is with %q, outside its zone", s, as[i])
		}
		if as[i] != w.owner(s) {
			moves++
		}
	}
	if why := st.uneven(as); why != "" {
		t.Errorf("stage of %d shards: %s", len(shards), why)
	}
	if try {
		if least := st.least(); moves != least {
			t.Errorf("stage of %d shards: %d moves, exhaustive search finds %d", len(shards), moves, least)
		}
	}
}

type stage struct {
	reference
	shards  []shardmap.Shard
	members []shardmap.Member
	placed  map[shardmap.NodeID]int
}

// uneven returns a description of what is not even in an assignment of the shards of the stage, or
// "".
func (st stage) uneven(as []shardmap.NodeID) string {
	count, owned := map[shardmap.NodeID]int{}, map[shardmap.NodeID]int{}
	for i, s := range st.shards {
		count[as[i]]++
		owned[st.owner(s)]++
	}
	off := func(id shardmap.NodeID, want float64) bool {
		return math.Abs(float64(st.placed[id]+count[id])-want) > 1-1e-6
	}
	var open []shardmap.Member
	left := len(st.shards)
	want := st.ideal(st.members, left, owned)
	for i, mb := range st.members {
		if st.open[mb.ID] {
			open = append(open, mb)
			continue
		}
		left -= count[mb.ID]
		if off(mb.ID, want[i]) || count[mb.ID] > owned[mb.ID] {
			return "shards of the cordoned member " + string(mb.ID)
		}
	}
	for i, want := range st.ideal(open, left, owned) {
		if off(open[i].ID, want) {
			return "shares of " + string(open[i].ID)
		}
	}
	return ""
}

// ideal divides n shards as real numbers: each member gets level times its weight, but not less
// than its fixed shards. A cordoned member gets at most what it owns.
func (st stage) ideal(members []shardmap.Member, n int, owned map[shardmap.NodeID]int) []float64 {
	at := func(level float64) (shares []float64, sum float64) {
		for _, mb := range members {
			base := float64(st.placed[mb.ID])
			share := max(level*float64(mb.Weight), base)
			if !st.open[mb.ID] {
				share = min(share, base+float64(owned[mb.ID]))
			}
			shares = append(shares, share)
			sum += share - base
		}
		return shares, sum
	}
	low, high := 0.0, 1e6
	for range 100 {
		mid := (low + high) / 2
		if _, sum := at(mid); sum < float64(n) {
			low = mid
		} else {
			high = mid
		}
	}
	shares, _ := at(high)
	return shares
}

// least returns the minimum of moves over all permitted assignments that are even.
func (st stage) least() int {
	best := len(st.shards) + 1
	as := make([]shardmap.NodeID, len(st.shards))
	var try func(i, moves int)
	try = func(i, moves int) {
		if moves >= best {
			return
		}
		if i == len(as) {
			if st.uneven(as) == "" {
				best = moves
			}
			return
		}
		was := st.owner(st.shards[i])
		for _, mb := range st.members {
			if mb.ID == was {
				as[i] = mb.ID
				try(i+1, moves)
			} else if st.open[mb.ID] {
				as[i] = mb.ID
				try(i+1, moves+1)
			}
		}
	}
	try(0, 0)
	return best
}
