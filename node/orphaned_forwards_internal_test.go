package node

import (
	"testing"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/shardmap"
)

// Old log entries abort no forwarded request. Once, all nodes of a cluster were killed and started again. A node replayed its log, in which
// another node had once been excluded, and aborted a POST that it had just forwarded to that node: 502, it may have been processed,
// although that node was healthy.
func TestOldLogAbandonsNoForwardedRequest(t *testing.T) {
	freed := 0
	f := orphanedForwards{log: zerolog.Nop(), abort: func(func(shardmap.Shard, string) bool) int { freed++; return 1 }}
	gone := func(shardmap.Shard, string) bool { return true }
	step := func(what string, want int) {
		t.Helper()
		if freed != want {
			t.Fatalf("%s: freed %d times, want %d", what, freed, want)
		}
	}
	f.checkPending = true // the map at its start
	f.abortIfCaughtUp(297, gone)
	step("nobody has said how old that is", 0)
	f.checkPending = true
	f.abortIfCaughtUp(361, gone)
	f.observeEpoch(457)
	f.abortIfCaughtUp(361, gone)
	step("a leader has spoken of newer maps", 0)
	f.checkPending = true
	f.abortIfCaughtUp(457, gone)
	step("the log is there", 1)
	f.observeEpoch(457)
	f.abortIfCaughtUp(457, gone)
	step("no map since", 1)
	f.checkPending = true
	f.abortIfCaughtUp(470, gone)
	step("a map that the leader has not spoken of yet", 2)
	f.checkPending = true
	f.observeEpoch(480)
	f.abortIfCaughtUp(475, gone)
	f.abortIfCaughtUp(480, gone)
	step("one that is proposed", 3)
}

// Once, all nodes were killed while a proposal was open that excluded the first of them. After the restart, another node forwarded a POST
// to it, and aborted it when its log reached that proposal.
func TestOldExclusionAbortsNoForwardedRequest(t *testing.T) {
	for _, tt := range []struct {
		drop ack.Drop
		want bool
	}{
		{ack.Drop{Epoch: 530, InForce: true}, false},
		{ack.Drop{Epoch: 531, InForce: true}, true},
		{ack.Drop{Epoch: 531}, false},
	} {
		if got := excludedSince(tt.drop, 530); got != tt.want {
			t.Errorf("forsakes(%+v) = %v, want %v", tt.drop, got, tt.want)
		}
	}
}
