package eventlog

import (
	"testing"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/event"
	"shardway/shardmap"
)

// The number of kept moves is bounded, and the newest ones stay.
func TestMovesAreBounded(t *testing.T) {
	var m ShardMoves
	for i := range maxShardMoves + 100 {
		m.mu.Lock()
		m.addLocked(api.Move{Epoch: uint64(i), Shard: uint32(i % 10)})
		m.mu.Unlock()
	}
	if n := len(m.ring); n != maxShardMoves {
		t.Errorf("%d moves are kept, want %d", n, maxShardMoves)
	}
	got := m.Of(7)
	if first, last := got[0].Epoch, got[len(got)-1].Epoch; first != 107 || last != 4187 {
		t.Errorf("moves of shard 7 from %d to %d, want 107 to 4187", first, last)
	}
	for i := range got[1:] {
		if got[i].Epoch >= got[i+1].Epoch {
			t.Fatalf("%d is before %d", got[i].Epoch, got[i+1].Epoch)
		}
	}
	if got := m.Of(11); got == nil || len(got) != 0 {
		t.Errorf("moves of a shard that has none: %v", got)
	}
}

// The map gets longer for a new service. The first owners of its shards are moves, as after the bootstrap.
func TestMovesToALongerMapAreKept(t *testing.T) {
	ring := event.NewRing(event.Options{Node: "a"})
	l := &mapLog{t: t, recorder: NewMapChangeRecorder(MapChangeOptions{Self: "a", Ring: ring}), state: ack.NewState()}
	var m ShardMoves
	l.apply(ack.EncodeBootstrap("c1", 4, ack.DefaultTiming()), ack.OutcomeBootstrapped)
	l.routed = l.state
	l.recorder.CaughtUp(l.state)
	l.propose("join", "a", "b")
	l.commit()
	add := ack.Change{Kind: ack.ChangeAddService, Service: "chat", Shards: 2}
	l.apply(ack.EncodePolicyChange(ack.MaxFormatVersion, ack.PolicyEntry{Term: 1, Changes: []ack.Change{add}}), ack.OutcomePolicyChanged)
	was := l.state
	running := map[shardmap.NodeID]shardmap.InstanceSet{"a": 0, "b": 0}
	want := shardmap.Assign(was.Committed(), was.Committed().Members(), shardmap.Policy{Services: []shardmap.Service{
		{Count: 4, Instances: running}, {First: 4, Count: 2, Instances: running},
	}})
	entry, err := ack.EncodeProposal(ack.MaxFormatVersion, ack.ProposalEntry{Term: 1, Base: was.Committed().Epoch(), Reason: "service", Want: want})
	if err != nil {
		t.Fatal(err)
	}
	l.apply(entry, ack.OutcomeProposed)
	l.commit()
	m.Record(was, l.state, "service")
	for shard := range uint32(6) {
		if moves := m.Of(shard); len(moves) != int(shard/4) {
			t.Errorf("moves of shard %d: %+v", shard, moves)
		}
	}
	m.Record(ack.NewState(), l.state, ReasonSnapshot)
	if moves := m.Of(5); len(moves) != 1 || moves[0].Reason != "service" || moves[0].From != "" {
		t.Errorf("moves after a snapshot: %+v", moves)
	}
}
