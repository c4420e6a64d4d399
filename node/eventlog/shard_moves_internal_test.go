package eventlog

import (
	"testing"

	"shardway/admin/api"
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
