package ack_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// An acquire call names the previous owner. A restart must not lose it: the log entries may be
// gone behind a snapshot.
func TestStateRecordsPreviousOwners(t *testing.T) {
	st := serving(t, "a", "b", "c")
	first := st.state.Committed()
	for s := range shardmap.Shard(12) {
		if before := st.state.PreviousOwner(s); before != "" && before == first.Owner(s) {
			t.Errorf("shard %d follows %q, which owns it", s, before)
		}
	}
	st.crash("c")
	st.run(3500 * time.Millisecond)
	b, err := st.state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := ack.DecodeState(b)
	if err != nil {
		t.Fatal(err)
	}
	for s := range shardmap.Shard(12) {
		want := st.state.PreviousOwner(s)
		if first.Owner(s) == "c" && want != "c" {
			t.Errorf("shard %d went from c to %s and follows %q", s, st.state.Committed().Owner(s), want)
		}
		if got := restored.PreviousOwner(s); got != want {
			t.Errorf("shard %d follows %q after a snapshot, it was %q", s, got, want)
		}
	}
	again, err := restored.Recovered("another", restored.MaxIndex()+ack.MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	for s := range shardmap.Shard(12) {
		if who := again.PreviousOwner(s); who != "" {
			t.Errorf("shard %d of a recovered cluster follows %q", s, who)
		}
	}
}
