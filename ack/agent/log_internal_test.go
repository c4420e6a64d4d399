package agent

import (
	"testing"

	"shardway/ack"
	"shardway/shardmap"
)

// testLog is the log of a cluster, which a test writes. All entries are of term 1.
type testLog struct {
	t     *testing.T
	state *ack.State
}

// newTestLog returns the log of a new cluster.
func newTestLog(t *testing.T, shards int) *testLog {
	t.Helper()
	l := &testLog{t: t, state: ack.NewState()}
	l.apply(ack.EncodeBootstrap("c1", shards, ack.DefaultTiming()), ack.OutcomeBootstrapped)
	return l
}

// apply appends an entry.
func (l *testLog) apply(entry []byte, want ack.Outcome) {
	l.t.Helper()
	next, got, err := l.state.Apply(l.state.Index()+1, 1, entry)
	if err != nil || got != want {
		l.t.Fatalf("entry %d: outcome %d, %v, want %d", l.state.Index()+1, got, err, want)
	}
	l.state = next
}

// propose proposes a map in which these nodes own the shards.
func (l *testLog) propose(ids ...shardmap.NodeID) {
	l.t.Helper()
	base := l.state.Committed()
	entry, err := ack.EncodeProposal(ack.MinFormatVersion, ack.ProposalEntry{Term: 1, Base: base.Epoch(), Want: shardmap.Assign(base, membersOf(ids...), shardmap.Policy{})})
	if err != nil {
		l.t.Fatal(err)
	}
	l.apply(entry, ack.OutcomeProposed)
}

// commit commits the open proposal.
func (l *testLog) commit() {
	l.t.Helper()
	last := l.state.Proposed()
	l.apply(ack.EncodeCommit(ack.MinFormatVersion, ack.CommitEntry{Epoch: last.Epoch(), Digest: last.Digest()}), ack.OutcomeCommitted)
}

// commitOwners commits a map in which these nodes own the shards.
func (l *testLog) commitOwners(ids ...shardmap.NodeID) {
	l.t.Helper()
	l.propose(ids...)
	l.commit()
}

// membersOf returns members of equal weight.
func membersOf(ids ...shardmap.NodeID) []shardmap.Member {
	all := make([]shardmap.Member, len(ids))
	for i, id := range ids {
		all[i] = shardmap.Member{ID: id, Weight: 1}
	}
	return all
}
