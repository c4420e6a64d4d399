package wsession

import (
	"sync"
	"time"

	"shardway/shardmap"
)

const (
	// quietPeriod is how long no session may be without a relay for a summary to be complete.
	quietPeriod = time.Second
	// maxPeriod is the time after which an incomplete summary is reported.
	maxPeriod = 30 * time.Second
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

// HandoverSummary collects the hand-overs of one move, so that one event reports all of them. It
// does not count connections that the app has closed for its own reasons.
type HandoverSummary struct {
	mu          sync.Mutex
	seen        Handover
	shards      map[shardmap.Shard]struct{}
	out         int       // WebSockets that have no upstream connection at the moment
	began, last time.Time // first and last event of the summary
}

// Lost counts a WebSocket that has lost its upstream connection.
func (w *HandoverSummary) Lost(shard shardmap.Shard, now time.Time) {
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

// Resumed counts a WebSocket that was resumed after took, with or without a gap.
func (w *HandoverSummary) Resumed(now time.Time, took time.Duration, gap bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(now, took)
	if gap {
		w.seen.Gaps++
	}
}

// Ended counts a WebSocket that ended after took without being resumed. lost is false if its client
// has disconnected.
func (w *HandoverSummary) Ended(now time.Time, took time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(now, took)
	if lost {
		w.seen.Lost++
	}
}

// settle counts a WebSocket that no longer waits for an upstream connection. The caller must hold mu.
func (w *HandoverSummary) settle(now time.Time, took time.Duration) {
	w.touch(now)
	w.out--
	w.seen.Longest = max(w.seen.Longest, took)
}

// touch updates the times of the summary. The caller must hold mu.
func (w *HandoverSummary) touch(now time.Time) {
	if w.last = now; w.began.IsZero() {
		w.began = now
	}
}

// Complete returns the summary when it is complete, and starts another one. ok is false otherwise, and
// if no WebSocket has lost its upstream connection.
func (w *HandoverSummary) Complete(now time.Time) (seen Handover, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() || now.Sub(w.began) < maxPeriod && (w.out > 0 || now.Sub(w.last) < quietPeriod) {
		return seen, false
	}
	seen, ok = w.seen, w.seen.Sockets > 0
	seen.Shards = len(w.shards)
	w.seen, w.shards, w.began, w.last = Handover{}, nil, time.Time{}, time.Time{}
	return seen, ok
}
