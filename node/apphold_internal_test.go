package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"shardway/shardmap"
)

// A hold counts for the ownership in which the app asked for it, and until its time is over.
func TestHoldEndsWithItsTimeAndItsOwnership(t *testing.T) {
	h := newAppHolds(4)
	for _, c := range []struct {
		what       string
		set        func()
		epoch      uint64
		now        time.Duration
		wantsHolds bool
	}{
		{"without a hold", func() {}, 1, 0, false},
		{"held", func() { h.set(2, 7, 10*time.Second) }, 7, 9 * time.Second, true},
		{"its time is over", func() {}, 7, 10 * time.Second, false},
		{"renewed", func() { h.set(2, 7, 20*time.Second) }, 7, 19 * time.Second, true},
		{"under an earlier ownership", func() {}, 6, 19 * time.Second, false},
		{"after the shard came back", func() {}, 9, 19 * time.Second, false},
		{"the app is unhealthy", func() { h.clear() }, 7, 1 * time.Second, false},
		{"held again", func() { h.set(2, 7, 20*time.Second) }, 7, 19 * time.Second, true},
		{"ended by 0", func() { h.set(2, 7, 0) }, 7, 1 * time.Second, false},
	} {
		c.set()
		if got := h.holds(2, c.epoch, c.now); got != c.wantsHolds {
			t.Errorf("%s: holds = %v, want %v", c.what, got, c.wantsHolds)
		}
	}
	if h.holds(1, 7, 0) {
		t.Error("another shard is held, too")
	}
}

// A shard that the app holds is not idle, whether nothing runs for it or only kept sockets do.
func TestHeldShardIsNotIdle(t *testing.T) {
	held := map[shardmap.Shard]int{1: 1, 3: 1}
	running := map[shardmap.Shard]int{2: 1, 3: 2, 4: 2}
	legs := map[shardmap.Shard]int{3: 2, 4: 2}
	all := slices.Values([]shardmap.Shard{0, 1, 2, 3, 4})
	got := idleOf(all, func(s shardmap.Shard) int { return running[s] + held[s] }, legs, 100)
	if want := []shardmap.Shard{0, 4}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("idle are %v, want %v", got, want)
	}
}
