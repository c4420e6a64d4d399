package wsession

import (
	"sync"
	"time"

	"shardway/shardmap"
)

const (
	// completeDelay is how long no event must occur, with no session disconnected, for a summary to be complete.
	completeDelay = time.Second
	// maxSummaryTime is the time after which an incomplete summary is reported.
	maxSummaryTime = 30 * time.Second
)

// Handover summarizes the effect of a move, or of the failure of an owner, on the resumable
// WebSockets whose clients are connected to this node.
type Handover struct {
	Shards         int           // shards of these WebSockets
	Sockets        int           // WebSockets that lost their upstream connection
	ResumedWithGap int           // WebSockets of Sockets that were resumed with a gap
	Lost           int           // WebSockets of Sockets that were not resumed
	LongestOutage  time.Duration // longest time without an upstream connection
}

// HandoverSummary collects the hand-overs of one move, so that a single event reports all of them.
// It does not count connections that the app closed for its own reasons.
type HandoverSummary struct {
	mu                    sync.Mutex
	totals                Handover
	shards                map[shardmap.Shard]struct{}
	disconnected          int       // WebSockets that currently have no upstream connection
	firstEvent, lastEvent time.Time // first and last event of the summary
}

// RecordDisconnected counts a WebSocket of the shard that has lost its upstream connection.
func (s *HandoverSummary) RecordDisconnected(shard shardmap.Shard, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordTime(now)
	if s.shards == nil {
		s.shards = map[shardmap.Shard]struct{}{}
	}
	s.shards[shard] = struct{}{}
	s.totals.Sockets++
	s.disconnected++
}

// RecordResumed counts a resumed WebSocket. outage is how long it had no upstream connection. hasGap is set if
// messages may be missing.
func (s *HandoverSummary) RecordResumed(now time.Time, outage time.Duration, hasGap bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordReconnected(now, outage)
	if hasGap {
		s.totals.ResumedWithGap++
	}
}

// RecordEnded counts a WebSocket that ended without being resumed. outage is how long it had no upstream
// connection. lost is false if its client disconnected.
func (s *HandoverSummary) RecordEnded(now time.Time, outage time.Duration, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordReconnected(now, outage)
	if lost {
		s.totals.Lost++
	}
}

// recordReconnected removes a WebSocket from the disconnected ones, because it was resumed or has ended. The
// caller must hold mu.
func (s *HandoverSummary) recordReconnected(now time.Time, outage time.Duration) {
	s.recordTime(now)
	s.disconnected--
	s.totals.LongestOutage = max(s.totals.LongestOutage, outage)
}

// recordTime updates the times of the first and last event. The caller must hold mu.
func (s *HandoverSummary) recordTime(now time.Time) {
	if s.lastEvent = now; s.firstEvent.IsZero() {
		s.firstEvent = now
	}
}

// TakeComplete returns the summary if it is complete, and starts a new one. ok is false if the summary is
// incomplete, or if no WebSocket has lost its upstream connection.
func (s *HandoverSummary) TakeComplete(now time.Time) (totals Handover, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firstEvent.IsZero() || now.Sub(s.firstEvent) < maxSummaryTime && (s.disconnected > 0 || now.Sub(s.lastEvent) < completeDelay) {
		return totals, false
	}
	totals, ok = s.totals, s.totals.Sockets > 0
	totals.Shards = len(s.shards)
	s.totals, s.shards, s.firstEvent, s.lastEvent = Handover{}, nil, time.Time{}, time.Time{}
	return totals, ok
}
