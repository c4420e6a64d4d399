package proxy

import (
	"sync"
	"time"

	"shardway/shardmap"
)

const (
	// waveQuiet is for how long every kept socket must have a leg for a wave to be over.
	waveQuiet = time.Second
	// waveMost is after how long it is told of all the same.
	waveMost = 30 * time.Second
)

// Handover is what a move, or the end of an owner, did to kept sockets whose clients are
// connected here.
type Handover struct {
	Shards  int           // of the sockets
	Sockets int           // that lost their leg
	Gaps    int           // of these, whose next one began with a gap
	Lost    int           // of these, for which there was none
	Longest time.Duration // that one of them was without a leg
}

// wave gathers what happens to kept sockets at once: when shards move many lose their legs,
// and one word about all of them is enough. A leg that the app itself ends is no part of one.
type wave struct {
	mu          sync.Mutex
	seen        Handover
	shards      map[shardmap.Shard]struct{}
	out         int       // sockets without a leg now
	began, last time.Time // of what is gathered
}

// loses notes a socket that has lost its leg.
func (w *wave) loses(shard shardmap.Shard, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touch(now)
	if w.shards == nil {
		w.shards = map[shardmap.Shard]struct{}{}
	}
	w.shards[shard] = struct{}{}
	w.seen.Sockets++
	w.out++
}

// finds notes that a socket has its next leg, with a gap or without, or that it will not.
func (w *wave) finds(now time.Time, took time.Duration, gap, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touch(now)
	w.out--
	if gap {
		w.seen.Gaps++
	}
	if lost {
		w.seen.Lost++
	}
	w.seen.Longest = max(w.seen.Longest, took)
}

// touch is called with mu held.
func (w *wave) touch(now time.Time) {
	if w.last = now; w.began.IsZero() {
		w.began = now
	}
}

// over returns what was gathered once that is to be told.
func (w *wave) over(now time.Time) (seen Handover, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() || now.Sub(w.began) < waveMost && (w.out > 0 || now.Sub(w.last) < waveQuiet) {
		return seen, false
	}
	seen, ok = w.seen, w.seen.Sockets > 0
	seen.Shards = len(w.shards)
	w.seen, w.shards, w.began, w.last = Handover{}, nil, time.Time{}, time.Time{}
	return seen, ok
}
