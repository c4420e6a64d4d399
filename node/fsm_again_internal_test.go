package node

import (
	"testing"

	"shardway/ack"
)

// When Raft restarts within the process, it restores its snapshot and repeats its log. The node keeps its newer state. Once, it returned to
// shards that it had given away, and to an older acknowledgement than it had sent.
func TestRaftBegunAgainDoesNotTakeTheNodeBack(t *testing.T) {
	f := newFSM(func(err error) { t.Error(err) })
	f.Apply(2, 1, ack.EncodeBootstrap("c", 8, ack.DefaultTiming()))
	snap, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	f.Apply(5, 1, ack.EncodeBootstrap("ignored", 8, ack.DefaultTiming()))
	newest := f.state.Load()
	if err := f.Restore(snap); err != nil {
		t.Fatal(err)
	}
	if got := f.state.Load(); got != newest {
		t.Errorf("the node goes by the state at %d after it was at %d", got.Index(), newest.Index())
	}
	if again, err := f.Snapshot(); err != nil || string(again) != string(snap) {
		t.Errorf("Raft's own state is not the restored one (%v)", err)
	}
	f.Apply(5, 1, ack.EncodeBootstrap("ignored", 8, ack.DefaultTiming()))
	f.Apply(6, 2, ack.EncodeBootstrap("ignored", 8, ack.DefaultTiming()))
	if got := f.state.Load().Index(); got != 6 {
		t.Errorf("Index() = %d after the log has caught up, want 6", got)
	}
}
