package idleshards

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// A shard with running requests is not idle. A shard with only resumable WebSockets is, because they can move: up to a number at a time,
// and those of one shard together, however many they are.
func TestShardsWithOnlyResumableWebSocketsAreIdle(t *testing.T) {
	running := map[shardmap.Shard]int{1: 3, 2: 3, 3: 30, 4: 200, 5: 300, 6: 1}
	legs := map[shardmap.Shard]int{1: 3, 2: 2, 3: 30, 4: 200, 5: 300} // shards 2 and 6 have a running request
	for _, c := range []struct {
		most int
		want []shardmap.Shard
	}{
		{1000, []shardmap.Shard{0, 1, 3, 4, 5}},
		{233, []shardmap.Shard{0, 1, 3, 4}},
		{232, []shardmap.Shard{0, 1, 3}},
		{29, []shardmap.Shard{0, 1}},
		{1, []shardmap.Shard{0, 1}},
		{0, []shardmap.Shard{0}},
	} {
		all := func(yield func(shardmap.Shard) bool) {
			for s := range shardmap.Shard(7) {
				if !yield(s) {
					return
				}
			}
		}
		if got := movableShards(all, func(s shardmap.Shard) int { return running[s] }, legs, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d at a time: %v are idle, want %v", c.most, got, c.want)
		}
	}
}

// The shards with the fewest WebSockets move first: as many WebSockets move in all, and fewer of them wait for others.
func TestShardsWithFewSocketsHandOverFirst(t *testing.T) {
	legs := map[shardmap.Shard]int{0: 200, 1: 3, 2: 30, 3: 3}
	for most, want := range map[int][]shardmap.Shard{1: {1}, 6: {1, 3}, 36: {1, 3, 2}, 235: {1, 3, 2}, 236: {1, 3, 2, 0}} {
		all := slices.Values([]shardmap.Shard{0, 1, 2, 3})
		if got := movableShards(all, func(s shardmap.Shard) int { return legs[s] }, legs, most); !slices.Equal(got, want) {
			t.Errorf("%d at a time: %v hand over, want %v", most, got, want)
		}
	}
}

// At the first question, the WebSockets that are due in one interval move; none count as overdue.
func TestHandOversBeginAtOnce(t *testing.T) {
	var p webSocketPacer
	by := ack.GradualDrain{Duration: 40 * time.Second, Index: 7}
	if n := p.nextBatch(time.Now(), 6000, by); n != 50 {
		t.Errorf("%d of 6000 hand over as it begins to last 30s, want 50 in a look of %v", n, leaderloop.IdlePollInterval)
	}
}

// The WebSockets of a node move evenly within three quarters of the drain time, regardless of the interval of the questions: a round lasts as
// long as the app needs. A node that does not know of its drain yet moves none.
func TestHandOversAreSpread(t *testing.T) {
	began := time.Now()
	for _, look := range []time.Duration{leaderloop.IdlePollInterval, 4 * leaderloop.IdlePollInterval, 5 * time.Second} {
		by := ack.GradualDrain{Duration: 40 * time.Second, Index: 7}
		var p webSocketPacer
		if n := p.nextBatch(began, 6000, ack.GradualDrain{}); n != 0 {
			t.Errorf("%d go of a node that does not know of it", n)
		}
		left, most := 6000, 6000*int(look)/int(30*time.Second)
		at := time.Duration(0)
		for ; left > 0; at += look {
			n := p.nextBatch(began.Add(at), left, by)
			if n > most+most/5+1 || at > 30*time.Second {
				t.Fatalf("asked every %v: %d of %d left go after %v, want %d or so each time", look, n, left, at, most)
			}
			left -= n
		}
		if at < 25*time.Second {
			t.Errorf("asked every %v: all have gone after %v, want 30s", look, at)
		}
		by.Index++
		if n := p.nextBatch(began.Add(time.Hour), 60, by); n != minWebSocketBatch {
			t.Errorf("%d of 60 go the next time, want %d", n, minWebSocketBatch)
		}
		if n := p.nextBatch(began.Add(2*time.Hour), 6000, by); n != 6000 {
			t.Errorf("%d of 6000 go as the time is over, want all", n)
		}
	}
}
