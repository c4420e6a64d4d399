package ack

import (
	"cmp"
	"maps"
	"time"

	"shardway/shardmap"
)

// NotReleasedFor is how long a heartbeat counts a shard that moved unreleased.
const NotReleasedFor = 10 * time.Minute

// ReleaseResult says how a release ended.
type ReleaseResult uint8

// The results.
const (
	// ReleaseOK: the app has released the shard, or does not hold it.
	ReleaseOK ReleaseResult = iota + 1
	// ReleaseFailed: the app reported an error each time, or refused the connection.
	ReleaseFailed
	// ReleaseLate: the app has not answered within HookOptions.ReleaseTimeout.
	ReleaseLate
)

var releaseNames = [...]string{ReleaseOK: "ok", ReleaseFailed: "failed", ReleaseLate: "late"}

// String returns the result as metrics and events spell it.
func (r ReleaseResult) String() string { return enumName(releaseNames[:], uint8(r), "ReleaseResult") }

// ReleaseEnd is the end of the release of one shard. After any result but ReleaseOK, what
// the app held of the shard and had not written is lost to the next owner.
type ReleaseEnd struct {
	Shard shardmap.Shard
	// Epoch is the ownership epoch that ends.
	Epoch shardmap.Epoch
	// To is the next owner; empty: none is known.
	To     shardmap.NodeID
	Result ReleaseResult
	// Why is the error of the last attempt; empty for ReleaseOK.
	Why string
	// Kept: the shard does not move, because the drain is a safe one.
	Kept bool
}

// releaseEnded reports the end of a release.
func (m *hookMachine) reportReleaseEnd(s shardmap.Shard, h *heldShard, result ReleaseResult, why string, kept bool) {
	if m.o.Ended == nil {
		return
	}
	e := ReleaseEnd{Shard: s, Epoch: h.epoch, Result: result, Why: why, Kept: kept}
	if to := m.seen.state.Last().Owner(s); to != m.self {
		e.To = to
	}
	m.o.Ended(e)
}

// releaseFailure returns how a release failed whose time is over.
func (h *heldShard) releaseFailure() (result ReleaseResult, why string) {
	if h.appResponded {
		return ReleaseFailed, h.err
	}
	return ReleaseLate, "the app did not answer in time (--release-timeout)"
}

// unreleased reports a shard that is given up though its app has not released it. A node
// that is excluded and gets no lease calls no release: that is no failure of the app.
func (m *hookMachine) reportUnreleased(now time.Duration, s shardmap.Shard, h *heldShard) {
	result, why := h.releaseFailure()
	switch {
	case m.appRefuses:
		result, why = ReleaseFailed, cmp.Or(h.err, "the app refuses connections")
	case h.appResponded:
	case !h.mayHaveReleased && m.cannotGetLease():
		return
	}
	m.notReleased[s] = now
	m.reportReleaseEnd(s, h, result, why, false)
}

// notReleased counts the shards that moved unreleased within NotReleasedFor.
func (a *Agent) countNotReleased(now time.Duration) uint32 {
	if a.hooks == nil {
		return 0
	}
	maps.DeleteFunc(a.hooks.notReleased, func(_ shardmap.Shard, at time.Duration) bool { return now-at >= NotReleasedFor })
	return uint32(len(a.hooks.notReleased))
}
