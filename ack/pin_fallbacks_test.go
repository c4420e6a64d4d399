package ack_test

import (
	"reflect"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

func pinTo(shard shardmap.Shard, nodes ...shardmap.NodeID) ack.Change {
	return ack.Change{Kind: ack.ChangePin, Shard: shard, Node: nodes[0], Fallbacks: nodes[1:]}
}

// A shard belongs to the first node of its pin that can own it, and moves back when an earlier node returns.
func TestPinnedShardFollowsTheOrderOfItsNodes(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", pinTo(1, "c", "b", "a"))
	s.until("the first node owns the shard", func() bool { return s.state.Committed().Owner(1) == "c" })
	s.changePolicy("a", drain("c"))
	s.until("the second node owns the shard", func() bool { return s.state.Committed().Owner(1) == "b" })
	s.changePolicy("a", drain("b"))
	s.until("the third node owns the shard", func() bool { return s.state.Committed().Owner(1) == "a" })
	s.changePolicy("a", uncordon("b"))
	s.until("the second node owns the shard again", func() bool { return s.state.Committed().Owner(1) == "b" })
	s.changePolicy("a", uncordon("c"))
	s.until("the first node owns the shard again", func() bool { return s.state.Committed().Owner(1) == "c" })
}

func TestNodesOfAPinArePartOfThePolicy(t *testing.T) {
	type pins = map[shardmap.Shard][]shardmap.NodeID
	for name, tc := range map[string]struct {
		changes   []ack.Change
		node      shardmap.NodeID // first node of the pin of shard 1
		fallbacks pins
	}{
		"several nodes":                {[]ack.Change{pinTo(1, "c", "b", "a")}, "c", pins{1: {"b", "a"}}},
		"then one":                     {[]ack.Change{pinTo(1, "c", "b", "a"), pinTo(1, "b")}, "b", pins{}},
		"then a zone":                  {[]ack.Change{pinTo(1, "c", "b", "a"), {Kind: ack.ChangePin, Shard: 1, Zone: "x"}}, "", pins{}},
		"then none":                    {[]ack.Change{pinTo(1, "c", "b", "a"), {Kind: ack.ChangeUnpin, Shard: 1}}, "", pins{}},
		"the first node is removed":    {[]ack.Change{pinTo(1, "c", "b", "a"), {Kind: ack.ChangeForgetNode, Node: "c"}}, "b", pins{1: {"a"}}},
		"the second node is removed":   {[]ack.Change{pinTo(1, "c", "b"), {Kind: ack.ChangeForgetNode, Node: "b"}}, "c", pins{}},
		"all nodes are removed":        {[]ack.Change{pinTo(1, "c", "b"), {Kind: ack.ChangeForgetNode, Node: "b"}, {Kind: ack.ChangeForgetNode, Node: "c"}}, "", pins{}},
		"the same again":               {[]ack.Change{pinTo(1, "c", "b"), pinTo(1, "c", "b")}, "c", pins{1: {"b"}}},
		"another shard keeps its list": {[]ack.Change{pinTo(1, "c", "b"), pinTo(2, "a", "b"), {Kind: ack.ChangeUnpin, Shard: 2}}, "c", pins{1: {"b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, "a")
			for _, change := range tc.changes {
				s.changePolicy("a", change)
				s.run(200 * time.Millisecond)
			}
			b, err := s.state.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			again, err := ack.DecodeState(b)
			if err != nil {
				t.Fatal(err)
			}
			recovered, err := again.Recovered("another", again.MaxIndex()+ack.MinIndexGap)
			if err != nil {
				t.Fatal(err)
			}
			for _, state := range []*ack.State{s.state, again, recovered} {
				policy := state.Policy()
				if len(policy.PinFallbacks) != len(tc.fallbacks) || len(tc.fallbacks) > 0 && !reflect.DeepEqual(policy.PinFallbacks, tc.fallbacks) || policy.Pins[1].Node != tc.node {
					t.Errorf("pins %v, then %v, want %q, then %v", policy.Pins, policy.PinFallbacks, tc.node, tc.fallbacks)
				}
			}
		})
	}
}

func TestInvalidListsOfPinsAreRefused(t *testing.T) {
	s := serving(t, "a")
	for name, change := range map[string]ack.Change{
		"a node twice":      pinTo(1, "a", "b", "a"),
		"a fallback twice":  pinTo(1, "a", "b", "b"),
		"nine nodes":        pinTo(1, "1", "2", "3", "4", "5", "6", "7", "8", "9"),
		"an empty id":       pinTo(1, "a", ""),
		"a zone and a node": {Kind: ack.ChangePin, Shard: 1, Zone: "x", Fallbacks: []shardmap.NodeID{"a"}},
	} {
		if err := s.state.CheckChanges([]ack.Change{change}); err == nil {
			t.Errorf("%s: %+v is accepted", name, change)
		}
	}
	if err := s.state.CheckChanges([]ack.Change{pinTo(1, "1", "2", "3", "4", "5", "6", "7", "8")}); err != nil {
		t.Error(err)
	}
}
