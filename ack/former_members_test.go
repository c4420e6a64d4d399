package ack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shardway/ack"
	"shardway/shardmap"
)

// departed returns the former members in a state, and checks that a snapshot keeps them.
func departed(t *testing.T, s *ack.State) string {
	t.Helper()
	text := func(s *ack.State) string {
		var all strings.Builder
		for _, id := range s.FormerMembers() {
			fmt.Fprintf(&all, "%s:%v ", id, s.IsDropped(id))
		}
		return all.String()
	}
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ack.DecodeState(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(again), text(s); got != want {
		t.Errorf("the snapshot has %q, want %q", got, want)
	}
	return text(s)
}

// The log says which nodes left and which failed, until they come back or are removed.
func TestStateNamesFormerMembers(t *testing.T) {
	s := serving(t, "a", "b", "c", "d")
	want := func(want string) {
		t.Helper()
		s.until("former members "+want, func() bool { return departed(t, s.state) == want && !s.state.HasOpenProposal() })
	}
	want("")
	s.actor("b").leaving = true
	want("b:false ")
	s.actor("b").goodbye = true
	s.run(3 * s.timing.DeadAfter)
	s.crash("b")
	s.crash("c")
	want("b:false c:true ")
	s.elect("d")
	s.run(3 * s.timing.DeadAfter)
	want("b:false c:true ")
	if r, err := s.state.Recovered("next", s.state.MaxIndex()+ack.MinIndexGap); err != nil || len(r.FormerMembers()) > 0 {
		t.Errorf("%v has former members of another cluster, %v", r.FormerMembers(), err)
	}
	s.joins("c")
	s.actor("c").follows, s.actor("c").term = "d", s.term
	want("b:false ")
	s.changePolicy("d", ack.Change{Kind: ack.ChangeForgetNode, Node: "b"})
	want("")
}

// An operator removes a node that the map still has. The map without it does not name it.
func TestRemovedNodeIsNoFormerMember(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.crash("c")
	s.changePolicy("a", ack.Change{Kind: ack.ChangeForgetNode, Node: "c"})
	departed(t, s.state)
	s.until("c is left out", func() bool { return !s.state.Committed().IsMember("c") && !s.state.HasOpenProposal() })
	if got := departed(t, s.state); got != "" {
		t.Errorf("former members %s", got)
	}
}

// The state names the last 16 former members.
func TestFormerMembersAreBounded(t *testing.T) {
	var names []shardmap.NodeID
	for i := range 20 {
		names = append(names, shardmap.NodeID(fmt.Sprintf("n%02d", i)))
	}
	s := serving(t, append([]shardmap.NodeID{"a"}, names[:11]...)...)
	for _, id := range names[11:] {
		s.joins(id)
	}
	s.run(3e9)
	for _, id := range names {
		s.actor(id).leaving = true
		s.until("it has left", func() bool { return !s.state.Committed().IsMember(id) && !s.state.HasOpenProposal() })
	}
	departed(t, s.state)
	if got := s.state.FormerMembers(); !slices.Equal(got, names[4:]) {
		t.Errorf("%v, want %v", got, names[4:])
	}
}
