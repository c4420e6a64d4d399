package ack

import (
	"bytes"
	"errors"
	"testing"

	"shardway/ack/join"
	"shardway/shardmap"
)

// joinState returns a state of a format version with a cluster, and a function that applies an entry in term 1.
func joinState(t *testing.T, version FormatVersion) (state *State, apply func(entry []byte) Outcome) {
	t.Helper()
	bootstrap := EncodeBootstrap("c", 8, DefaultTiming())
	bootstrap[0] = byte(version)
	state, index := NewState(), uint64(0)
	apply = func(entry []byte) Outcome {
		t.Helper()
		index++
		next, outcome, err := state.Apply(index, 1, entry)
		if err != nil {
			t.Fatal(err)
		}
		*state = *next
		return outcome
	}
	apply(bootstrap)
	return state, apply
}

// Join requests are part of the state and of snapshots. An entry of an earlier leader has no effect.
func TestJoinRequestsAreReplicated(t *testing.T) {
	state, apply := joinState(t, JoinsFormatVersion)
	request := []join.Change{{Kind: join.Request, Server: "b/1", Boot: 1}}
	if outcome := apply(EncodeJoin(JoinsFormatVersion, JoinEntry{Term: 2, Changes: request})); outcome != OutcomeIgnored {
		t.Errorf("an entry of another term: %v", outcome)
	}
	if outcome := apply(EncodeJoin(JoinsFormatVersion, JoinEntry{Term: 1, Changes: request})); outcome != OutcomeJoinChanged {
		t.Errorf("request: %v", outcome)
	}
	record, _ := state.Joins().Undecided("b")
	apply(EncodeJoin(JoinsFormatVersion, JoinEntry{Term: 1, Changes: []join.Change{{Kind: join.Accept, Server: "b/1", Ticket: record.Ticket}, {Kind: join.EndBootstrap}}}))
	snapshot, err := state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := DecodeState(snapshot)
	if err != nil || !restored.Joins().IsAdmitted("b/1") || !restored.Joins().BootstrapEnded() {
		t.Fatalf("restored %+v: %v", restored, err)
	}
	if again, _ := restored.MarshalBinary(); !bytes.Equal(again, snapshot) {
		t.Error("the restored state has another snapshot")
	}
	recovered, err := restored.Recovered("d", 2*MinIndexGap)
	if err != nil || recovered.Joins().IsAdmitted("b/1") || !recovered.Joins().BootstrapEnded() {
		t.Errorf("recovered %+v: %v", recovered.Joins(), err)
	}
	apply(EncodePolicyChange(JoinsFormatVersion, PolicyEntry{Term: 1, Changes: []Change{{Kind: ChangeForgetNode, Node: shardmap.NodeID("b")}}}))
	if state.Joins().IsAdmitted("b/1") {
		t.Error("a removed node may join without an approval")
	}
}

// An earlier format version contains no join requests, and its snapshots do not change.
func TestJoinRequestsNeedTheirFormatVersion(t *testing.T) {
	state, _ := joinState(t, JoinsFormatVersion-1)
	entry := EncodeJoin(JoinsFormatVersion, JoinEntry{Term: 1, Changes: []join.Change{{Kind: join.EndBootstrap}}})
	if _, _, err := state.Apply(2, 1, entry); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an entry of the next format version: %v", err)
	}
	entry[0]--
	if _, _, err := state.Apply(2, 1, entry); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an entry in an earlier format version: %v", err)
	}
	if snapshot, err := state.MarshalBinary(); err != nil || snapshot[0] != byte(JoinsFormatVersion-1) {
		t.Errorf("snapshot %v: %v", snapshot, err)
	}
}
