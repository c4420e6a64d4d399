package proxy

import (
	"sync"
	"time"

	"shardway/shardmap"
)

const (
	// waveQuiet is how long no session may be without a relay for a summary to be complete.
	waveQuiet = time.Second
	// waveMost is the time after which an incomplete summary is reported.
	waveMost = 30 * time.Second
)

// Handover summarizes the effect of a move, or of the failure of an owner, on the resumable
// WebSockets whose clients are connected to this node.
type Handover struct {
	Shards  int           // shards of these WebSockets
	Sockets int           // WebSockets that lost their upstream connection
	Gaps    int           // WebSockets of Sockets that were resumed with a gap
	Lost    int           // WebSockets of Sockets that were not resumed
	Longest time.Duration // longest time without an upstream connection
}

// handoverSummary collects the hand-overs of one move, so that one event reports all of them. It
// does not count connections that the app has closed for its own reasons.
type handoverSummary struct {
	mu          sync.Mutex
	seen        Handover
	shards      map[shardmap.Shard]struct{}
	out         int       // WebSockets that have no upstream connection at the moment
	began, last time.Time // first and last event of the summary
}

// loses counts a WebSocket that has lost its upstream connection.
func (w *handoverSummary) loses(shard shardmap.Shard, now time.Time) {
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

// finds counts a WebSocket that was resumed, with or without a gap, or that was lost.
func (w *handoverSummary) finds(now time.Time, took time.Duration, gap, lost bool) {
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

// touch updates the times of the summary. The caller must hold mu.
func (w *handoverSummary) touch(now time.Time) {
	if w.last = now; w.began.IsZero() {
		w.began = now
	}
}

// over returns the summary when it is complete.
func (w *handoverSummary) over(now time.Time) (seen Handover, ok bool) {
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
