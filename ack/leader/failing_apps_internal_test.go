package leader

import (
	"testing"

	"shardway/shardmap"
)

// A shard that no app acquires stays with its owner, even if the shares are uneven.
func TestShardThatNoAppAcquiresStays(t *testing.T) {
	a, b := shardmap.Member{ID: "a", Weight: 1}, shardmap.Member{ID: "b", Weight: 1}
	base := shardmap.Assign(shardmap.New(4), []shardmap.Member{a}, shardmap.Policy{})
	members := []shardmap.Member{a, b}
	p := shardmap.Policy{Pins: map[shardmap.Shard]shardmap.Pin{}}
	for s := range shardmap.Shard(base.Len()) {
		avoid := map[shardmap.NodeID]bool{"a": true, "b": true}
		r := relocation{placement: &p, members: members, shardCounts: map[shardmap.NodeID]int{"a": 4, "b": 0}}
		to := r.target(s, "a", avoid)
		if to != "a" {
			t.Errorf("shard %d goes to %q, want it to stay on a", s, to)
		}
		if to != "" {
			p.Pins[s] = shardmap.Pin{Node: to}
		}
	}
	if moves := shardmap.Diff(base, shardmap.Assign(base, members, p)); len(moves) > 0 {
		t.Errorf("the next map moves %v, want no moves", moves)
	}
}

// A shard that an app fails to acquire does not move to a node of which each instance is drained, and
// does not stay there.
func TestFailingShardAvoidsNodeWithDrainedInstances(t *testing.T) {
	a, b, c := shardmap.Member{ID: "a", Weight: 1}, shardmap.Member{ID: "b", Weight: 1, Instances: shardmap.InstancesUpTo(2)}, shardmap.Member{ID: "c", Weight: 1}
	members := []shardmap.Member{a, b, c}
	base := shardmap.Assign(shardmap.New(8), []shardmap.Member{a, c}, shardmap.Policy{})
	p := shardmap.Policy{Drained: map[shardmap.NodeID]bool{"b/1": true, "b/2": true}}
	if to := newRelocation(&p, base, members).target(0, "a", map[shardmap.NodeID]bool{"a": true}); to != "c" {
		t.Errorf("a shard that a fails to acquire goes to %q, want c", to)
	}
	if to := newRelocation(&p, base, members).target(0, "b", map[shardmap.NodeID]bool{"a": true}); to != "c" {
		t.Errorf("a shard of b that a has failed to acquire goes to %q, want c", to)
	}
	delete(p.Drained, "b/2")
	if to := newRelocation(&p, base, members).target(0, "a", map[shardmap.NodeID]bool{"a": true}); to != "b" {
		t.Errorf("with one drained instance, the shard goes to %q, want b", to)
	}
}

// A restarting node keeps a shard that another app has failed to acquire. It must not become the
// target of another failing shard, because it gets none. That shard once stayed at its failing app.
func TestNodeThatKeepsAFailingShardGetsNoOther(t *testing.T) {
	a, b, c := shardmap.Member{ID: "a", Weight: 1}, shardmap.Member{ID: "b", Weight: 1}, shardmap.Member{ID: "c", Weight: 4}
	members := []shardmap.Member{a, b, c}
	base := shardmap.Assign(shardmap.New(12), members, shardmap.Policy{})
	p := shardmap.Policy{Restarting: map[shardmap.NodeID]bool{"b": true}}
	r, failing := newRelocation(&p, base, members), map[shardmap.NodeID]bool{"a": true}
	to := r.target(0, "b", failing)
	if to != "b" {
		t.Fatalf("a shard of the restarting node b goes to %q, want it to stay", to)
	}
	r.countMove("b", to)
	if to := r.target(1, "a", failing); to != "c" {
		t.Errorf("a shard of a goes to %q, want c", to)
	}
}

// A shard that an app fails to acquire moves to no node that Assign would not give it to, because all
// its instances are barred from the shard. Otherwise it would stay at the failing app.
func TestFailingShardAvoidsBarredNode(t *testing.T) {
	a, b, c := shardmap.Member{ID: "a", Weight: 1}, shardmap.Member{ID: "b", Weight: 1, Instances: shardmap.InstancesUpTo(2)}, shardmap.Member{ID: "c", Weight: 1}
	members := []shardmap.Member{a, b, c}
	base := shardmap.Assign(shardmap.New(8), []shardmap.Member{a, c}, shardmap.Policy{})
	var barred shardmap.ShardSet
	barred.Add(0)
	failing := map[shardmap.NodeID]bool{"a": true}
	for name, test := range map[string]struct {
		barred, drained []shardmap.NodeID
		want            shardmap.NodeID
	}{
		"no instance":                        {nil, nil, "b"},
		"one instance":                       {[]shardmap.NodeID{"b"}, nil, "b"},
		"both instances":                     {[]shardmap.NodeID{"b", "b/2"}, nil, "c"},
		"one instance, the other is drained": {[]shardmap.NodeID{"b"}, []shardmap.NodeID{"b/2"}, "c"},
		"all nodes":                          {[]shardmap.NodeID{"b", "b/2", "c"}, nil, "a"},
	} {
		p := shardmap.Policy{Barred: map[shardmap.NodeID]shardmap.ShardSet{}, Drained: map[shardmap.NodeID]bool{}}
		for _, id := range test.barred {
			p.Barred[id] = barred
		}
		for _, id := range test.drained {
			p.Drained[id] = true
		}
		if to := newRelocation(&p, base, members).target(0, "a", failing); to != test.want {
			t.Errorf("%s barred: the shard goes to %q, want %s", name, to, test.want)
		}
	}
}

// The nodes of a pin are preferred in their order, whichever node has failed to acquire the shard. An owner that gets
// no further shards keeps this one. A node that is barred from the shard does not get it, because Assign would not
// place it there.
func TestFailingShardFollowsItsPin(t *testing.T) {
	members := []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}, {ID: "c", Weight: 4}}
	base := shardmap.Assign(shardmap.New(12), members, shardmap.Policy{})
	var barred shardmap.ShardSet
	barred.Add(0)
	for name, test := range map[string]struct {
		cordoned, barred, failing, owner shardmap.NodeID
		fallbacks                        []shardmap.NodeID
		want                             shardmap.NodeID
	}{
		"first node owns it":                        {"", "", "c", "a", []shardmap.NodeID{"b"}, ""},
		"first node is cordoned and owns it":        {"a", "", "c", "a", []shardmap.NodeID{"b"}, "a"},
		"first node is cordoned and owns it, fails": {"a", "", "a", "a", []shardmap.NodeID{"b"}, "b"},
		"first node is cordoned":                    {"a", "", "c", "c", []shardmap.NodeID{"b"}, "b"},
		"fallback is cordoned and owns it":          {"b", "", "a", "b", []shardmap.NodeID{"b", "c"}, "b"},
		"first node can receive it":                 {"", "", "b", "b", nil, ""},
		"first node is barred, owner fails":         {"", "a", "b", "b", nil, "c"},
		"first node is barred, another node fails":  {"", "a", "c", "b", nil, "b"},
		"fallback is barred":                        {"", "b", "a", "a", []shardmap.NodeID{"b", "c"}, "c"},
	} {
		p := shardmap.Policy{
			Pins: map[shardmap.Shard]shardmap.Pin{0: {Node: "a"}}, PinFallbacks: map[shardmap.Shard][]shardmap.NodeID{0: test.fallbacks},
			Cordoned: map[shardmap.NodeID]bool{test.cordoned: true}, Barred: map[shardmap.NodeID]shardmap.ShardSet{test.barred: barred},
		}
		if to := newRelocation(&p, base, members).target(0, test.owner, map[shardmap.NodeID]bool{test.failing: true}); to != test.want {
			t.Errorf("%s: the shard goes to %q, want %q", name, to, test.want)
		}
	}
}
