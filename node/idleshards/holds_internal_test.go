package idleshards

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"shardway/internal/clock"
	"shardway/node/router"
	"shardway/shardmap"
)

// A hold counts for the ownership in which the app requested it, and until it expires.
func TestHoldEndsWithItsTimeAndItsOwnership(t *testing.T) {
	h := NewHolds()
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
		{"the app is unhealthy", func() { h.Clear() }, 7, 1 * time.Second, false},
		{"held again", func() { h.set(2, 7, 20*time.Second) }, 7, 19 * time.Second, true},
		{"ended by 0", func() { h.set(2, 7, 0) }, 7, 1 * time.Second, false},
	} {
		c.set()
		if got := h.has(2, c.epoch, c.now); got != c.wantsHolds {
			t.Errorf("%s: holds = %v, want %v", c.what, got, c.wantsHolds)
		}
	}
	if h.has(1, 7, 0) {
		t.Error("another shard is held, too")
	}
}

// A shard that the app holds is not idle, whether it has no requests or only resumable WebSockets.
func TestHeldShardIsNotIdle(t *testing.T) {
	held := map[shardmap.Shard]int{1: 1, 3: 1}
	running := map[shardmap.Shard]int{2: 1, 3: 2, 4: 2}
	legs := map[shardmap.Shard]int{3: 2, 4: 2}
	all := slices.Values([]shardmap.Shard{0, 1, 2, 3, 4})
	got := movableShards(all, func(s shardmap.Shard) int { return running[s] + held[s] }, legs, 100)
	if want := []shardmap.Shard{0, 4}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("idle are %v, want %v", got, want)
	}
}

// A response of an earlier ownership may arrive after a response of the current one. It must
// not end the hold: the shard would count as idle and move.
func TestLateResponseOfAnEarlierOwnershipKeepsTheHold(t *testing.T) {
	for name, until := range map[string]time.Duration{"renews its hold": time.Minute, "ends its hold": 0} {
		h := NewHolds()
		h.set(0, 7, 20*time.Second)
		h.set(0, 6, until)
		if !h.has(0, 7, 19*time.Second) {
			t.Errorf("the late response %s: the shard is not held any more", name)
		}
		if h.has(0, 6, 19*time.Second) {
			t.Errorf("the late response %s: the shard is held under the earlier ownership", name)
		}
		h.set(0, 8, 30*time.Second)
		if !h.has(0, 8, 29*time.Second) {
			t.Errorf("the late response %s: the next ownership has no hold", name)
		}
	}
}

// A held shard counts as busy, under the ownership of its hold only, until the hold ends.
func TestHeldShardIsBusyForItsOwnership(t *testing.T) {
	c := new(clock.Manual)
	tracker := &Tracker{Self: "a", Clock: c, Holds: NewHolds(), Router: router.New("a", 4, c, nil)}
	m := shardmap.Assign(shardmap.New(4), []shardmap.Member{{ID: "a", Weight: 1}}, shardmap.Policy{})
	since := func(s shardmap.Shard) uint64 { return uint64(m.OwnedSince(s)) }
	tracker.Hold(1, since(1), 10*time.Second)
	tracker.Hold(2, since(2)+1, 10*time.Second)
	tracker.Hold(3, since(3), 10*time.Second)
	tracker.Hold(3, since(3), 0)
	want := func(what string, counts ...int) {
		t.Helper()
		for s, count := range counts {
			if got := tracker.busy(m)(shardmap.Shard(s)); got != count {
				t.Errorf("%s: shard %d has %d, want %d", what, s, got, count)
			}
		}
	}
	want("held", 0, 1, 0, 0)
	c.Advance(10 * time.Second)
	want("after the hold", 0, 0, 0, 0)
}
