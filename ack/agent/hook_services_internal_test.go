package agent

import (
	"maps"
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// newServicesStage returns the hook machine of node a, whose first app instance runs the service chat of three
// shards, and whose second instance runs the service search of two shards.
func newServicesStage(t *testing.T) *hookStage {
	t.Helper()
	s := newHookStage(t, 1)
	s.see = hookInputs{state: ack.NewState(), hasLease: true, mayRelease: true}
	s.entry(ack.EncodeBootstrap("c1", 5, ack.DefaultTiming(), ack.ServiceSpec{Name: "chat", Shards: 3}, ack.ServiceSpec{Name: "search", Shards: 2}))
	s.place("a")
	s.commit()
	return s
}

// place proposes a map in which the node owns all shards.
func (s *hookStage) place(node shardmap.NodeID) {
	s.t.Helper()
	bits := func(instance shardmap.Instance) shardmap.InstanceSet {
		return shardmap.InstanceSet(ack.InstanceBits(0).With(instance)).Normalized()
	}
	member := shardmap.Member{ID: node, Instances: shardmap.InstanceSet(ack.InstanceBits(0).With(0).With(1)).Normalized()}
	policy := shardmap.Policy{Services: []shardmap.Service{
		{First: 0, Count: 3, Instances: map[shardmap.NodeID]shardmap.InstanceSet{node: bits(0)}},
		{First: 3, Count: 2, Instances: map[shardmap.NodeID]shardmap.InstanceSet{node: bits(1)}},
	}}
	base := s.see.state.Committed()
	entry, err := ack.EncodeProposal(s.see.state.FormatVersion(), ack.ProposalEntry{Term: 1, Base: base.Epoch(), Want: shardmap.Assign(base, []shardmap.Member{member}, policy)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.entry(entry)
	s.see.drainingEpoch = s.see.state.Proposed().Epoch()
}

// byService returns the calls by their service, each of which must have one call of the kind.
func (s *hookStage) byService(calls []HookCall, kind HookKind) map[string]HookCall {
	s.t.Helper()
	found := map[string]HookCall{}
	for _, call := range calls {
		if _, twice := found[call.Service]; twice || call.Kind != kind {
			s.t.Errorf("another %s call for service %q: %+v", call.Kind, call.Service, call)
		}
		found[call.Service] = call
	}
	return found
}

// Each call names shards of one service and the beginning of its range, and goes to the instance of the service.
// This remains so for an app that still holds shards of a service that the cluster no longer has.
func TestHookCallsNameTheirService(t *testing.T) {
	want := map[string]struct {
		first    shardmap.Shard
		instance shardmap.Instance
		shards   []shardmap.Shard
	}{"chat": {0, 0, []shardmap.Shard{0, 1, 2}}, "search": {3, 1, []shardmap.Shard{3, 4}}}
	check := func(s *hookStage, calls map[string]HookCall) {
		t.Helper()
		if len(calls) != len(want) {
			t.Fatalf("calls for the services %v", slices.Sorted(maps.Keys(calls)))
		}
		for service, expected := range want {
			call := calls[service]
			var shards []shardmap.Shard
			for _, shard := range call.Shards {
				shards = append(shards, shard.Shard)
			}
			if call.First != expected.first || call.Instance != expected.instance || !slices.Equal(shards, expected.shards) {
				t.Errorf("%s for %s: shards %v from %d at instance %d, want %+v", call.Kind, service, shards, call.First, call.Instance, expected)
			}
			s.result(HookResult{Seq: call.Seq})
		}
	}
	s := newServicesStage(t)
	check(s, s.byService(s.pollAfter(0), HookAcquire))
	s.pollAfter(0)
	s.place("b")
	check(s, s.byService(s.pollAfter(time.Millisecond), HookRelease))

	s = newServicesStage(t)
	check(s, s.byService(s.pollAfter(0), HookAcquire))
	s.pollAfter(0)
	s.see.hasLease, s.see.mayRelease = false, false
	for range 2 { // nobody owns a shard in the committed and in the proposed map
		s.propose(nil)
		s.commit()
	}
	for _, change := range []ack.Change{
		{Kind: ack.ChangeAddService, Service: "third", Shards: 1},
		{Kind: ack.ChangeRemoveService, Service: "search"},
		{Kind: ack.ChangeRemoveService, Service: "chat"},
		{Kind: ack.ChangeAddService, Service: "mail", Shards: 5},
	} {
		s.entry(ack.EncodePolicyChange(s.see.state.FormatVersion(), ack.PolicyEntry{Term: 1, Changes: []ack.Change{change}}))
	}
	if service, _ := s.see.state.ServiceOf(3); service.Name != "mail" {
		t.Fatalf("shard 3 belongs to %+v", service)
	}
	check(s, s.byService(s.pollAfter(0), HookLost))
}

// An instance that the map assigns shards of two services gets a call for each service.
func TestCallNamesShardsOfOneService(t *testing.T) {
	s := newServicesStage(t)
	s.see.state = ack.NewState()
	s.entry(ack.EncodeBootstrap("c1", 5, ack.DefaultTiming(), ack.ServiceSpec{Name: "chat", Shards: 3}, ack.ServiceSpec{Name: "search", Shards: 2}))
	s.propose(membersOf("a"))
	s.commit()
	calls := s.byService(s.pollAfter(0), HookAcquire)
	if chat, search := calls["chat"], calls["search"]; len(chat.Shards) != 3 || len(search.Shards) != 2 || search.First != 3 || chat.Instance != search.Instance {
		t.Errorf("chat: %+v, search: %+v", chat, search)
	}
}
