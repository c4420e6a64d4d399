package eventlog

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/event"
	"shardway/shardmap"
)

// mapLog is a replicated log with maps, and the recorder of a node that routes by it.
type mapLog struct {
	leads    bool // the leader loop of the node makes the proposals and commits
	t        *testing.T
	recorder *MapChangeRecorder
	state    *ack.State
	routed   *ack.State
}

func (l *mapLog) apply(entry []byte, want ack.Outcome) {
	l.t.Helper()
	next, got, err := l.state.Apply(l.state.Index()+1, 1, entry)
	if err != nil || got != want {
		l.t.Fatalf("entry %d: outcome %d, %v, want %d", l.state.Index()+1, got, err, want)
	}
	l.state = next
}

func (l *mapLog) propose(reason string, ids ...shardmap.NodeID) {
	l.t.Helper()
	members := make([]shardmap.Member, len(ids))
	for i, id := range ids {
		members[i] = shardmap.Member{ID: id, Weight: 1}
	}
	base := l.state.Committed()
	entry, err := ack.EncodeProposal(ack.MinFormatVersion, ack.ProposalEntry{Term: 1, Base: base.Epoch(), Reason: reason, Want: shardmap.Assign(base, members, shardmap.Policy{})})
	if err != nil {
		l.t.Fatal(err)
	}
	if l.leads {
		l.recorder.RecordProposed(base.Epoch(), time.Second)
	}
	l.apply(entry, ack.OutcomeProposed)
}

func (l *mapLog) commit() {
	l.t.Helper()
	last := l.state.Proposed()
	if l.leads {
		l.recorder.RecordCommitSubmitted(last.Epoch(), time.Second)
	}
	l.apply(ack.EncodeCommit(ack.MinFormatVersion, ack.CommitEntry{Epoch: last.Epoch(), Digest: last.Digest()}), ack.OutcomeCommitted)
}

// route makes the node route by the newest state.
func (l *mapLog) route() {
	l.recorder.RecordRouted(l.routed, l.state, time.Second)
	l.routed = l.state
}

// A proposal that another one replaces is reported as abandoned, with the reason of the other one. A proposal that was
// committed is not, even if the node observes the commit together with the next proposal.
func TestReplacedProposalIsAbandoned(t *testing.T) {
	t.Parallel()
	ring := event.NewRing(event.Options{Node: "a"})
	l := &mapLog{t: t, recorder: NewMapChangeRecorder(MapChangeOptions{Self: "a", Ring: ring}), state: ack.NewState()}
	l.apply(ack.EncodeBootstrap("c1", 8, ack.DefaultTiming()), ack.OutcomeBootstrapped)
	l.routed = l.state
	l.recorder.CaughtUp(l.state)
	l.propose("join", "a", "b")
	l.route()
	l.commit()
	l.propose("weight", "a", "b", "c")
	l.route() // the commit and the next proposal
	l.propose("missed ack", "a", "c")
	l.route()
	l.commit()
	l.route()
	cursor, err := ring.Read("")
	if err != nil {
		t.Fatal(err)
	}
	events, _ := cursor.Next(100)
	var got []string
	for _, e := range events {
		got = append(got, e.Kind.String()+" "+e.Reason)
	}
	want := []string{"map-proposed join", "map-committed join", "shards-moved join", "map-proposed weight", "map-abandoned missed-ack", "map-proposed missed-ack", "map-committed missed-ack", "shards-moved missed-ack"}
	if !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
	if proposed, abandoned := events[3], events[4]; abandoned.Epoch != proposed.Epoch || abandoned.Change.Moved != proposed.Change.Moved || abandoned.Epoch == events[5].Epoch {
		t.Errorf("abandoned %+v, proposed %+v", abandoned, proposed)
	}
}

// The leader counts the shards that moved in its maps, and the proposals that it replaced. Other nodes count neither.
func TestLeaderCountsMovesAndReplacedProposals(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		var moved []int
		var abandoned []string
		recorder := NewMapChangeRecorder(MapChangeOptions{
			Self: "a", Ring: event.NewRing(event.Options{Node: "a"}),
			OnCommitted: func(n int) { moved = append(moved, n) }, OnAbandoned: func(reason string) { abandoned = append(abandoned, reason) },
		})
		l := &mapLog{t: t, leads: leads, recorder: recorder, state: ack.NewState()}
		l.apply(ack.EncodeBootstrap("c1", 8, ack.DefaultTiming()), ack.OutcomeBootstrapped)
		l.routed = l.state
		recorder.CaughtUp(l.state)
		l.propose("join", "a", "b")
		l.route()
		l.commit()
		l.route()
		l.propose("weight", "a", "b", "c")
		l.route()
		l.propose("missed ack", "a")
		l.route()
		l.commit()
		l.route()
		var wantMoved []int
		var wantAbandoned []string
		if leads {
			wantMoved, wantAbandoned = []int{8, 4}, []string{"missed-ack"} // all shards get an owner, then a gets those of b
		}
		if !slices.Equal(moved, wantMoved) || !slices.Equal(abandoned, wantAbandoned) {
			t.Errorf("leads %v: moved %v, abandoned %q, want %v, %q", leads, moved, abandoned, wantMoved, wantAbandoned)
		}
	}
}
