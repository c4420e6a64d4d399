package agent

import (
	"cmp"
	"maps"
	"time"

	"shardway/shardmap"
)

// UnreleasedMoveWindow is how long heartbeats count a shard that moved without a release.
const UnreleasedMoveWindow = 10 * time.Minute

// ReleaseResult is the result of a release.
type ReleaseResult uint8

// The results.
const (
	// ReleaseOK means that the app has released the shard, or does not hold it.
	ReleaseOK ReleaseResult = iota + 1
	// ReleaseFailed means that the app returned an error to each call, or refused the
	// connection.
	ReleaseFailed
	// ReleaseLate means that the app did not respond within HookOptions.ReleaseTimeout.
	ReleaseLate
)

var releaseNames = [...]string{ReleaseOK: "ok", ReleaseFailed: "failed", ReleaseLate: "late"}

// String returns the result as metrics and events spell it.
func (rr ReleaseResult) String() string { return enumName(releaseNames[:], uint8(rr), "ReleaseResult") }

// ReleaseEnd describes the end of the release of one shard. After any result but ReleaseOK, the
// next owner lacks the state that the app had not written.
type ReleaseEnd struct {
	Shard shardmap.Shard
	// Epoch is the ownership epoch that ends.
	Epoch shardmap.Epoch
	// To is the next owner, as in HookShard, or empty if none is known.
	To     shardmap.NodeID
	Result ReleaseResult
	// Reason is the error of the last attempt; empty for ReleaseOK.
	Reason string
	// Kept is set if the shard does not move, because the drain is a safe one.
	Kept bool
}

// releaseEnds reports the ends of releases, and counts the shards that moved without a release.
type releaseEnds struct {
	report          func(ReleaseEnd)                 // HookOptions.ReleaseEnded; nil means no calls
	unreleasedMoves map[shardmap.Shard]time.Duration // when the shard moved without a release
}

// countUnreleasedMoves counts the shards that moved without a release within UnreleasedMoveWindow.
func (re *releaseEnds) countUnreleasedMoves(now time.Duration) uint32 {
	isOld := func(_ shardmap.Shard, movedAt time.Duration) bool { return now-movedAt >= UnreleasedMoveWindow }
	maps.DeleteFunc(re.unreleasedMoves, isOld)
	return uint32(len(re.unreleasedMoves))
}

// reportReleaseEnd calls HookOptions.ReleaseEnded.
func (m *hookMachine) reportReleaseEnd(shard shardmap.Shard, held *heldShard, result ReleaseResult, reason string, kept bool) {
	if m.releaseEnds.report != nil {
		m.releaseEnds.report(ReleaseEnd{Shard: shard, Epoch: held.epoch, To: m.nextOwner(shard), Result: result, Reason: reason, Kept: kept})
	}
}

// releaseFailure returns the result of a release whose time is over, and the reason.
func (hs *heldShard) releaseFailure() (result ReleaseResult, reason string) {
	if hs.appResponded {
		return ReleaseFailed, hs.lastError
	}
	return ReleaseLate, "the app did not answer in time (--release-timeout)"
}

// reportUnreleased reports a shard that the node gives up without a release. An excluded node
// without a lease starts no release calls, which is not the app's fault and is not reported.
func (m *hookMachine) reportUnreleased(now time.Duration, shard shardmap.Shard, held *heldShard) {
	result, reason := held.releaseFailure()
	refusesConns := m.refusesConns[held.instance]
	if refusesConns {
		result, reason = ReleaseFailed, cmp.Or(held.lastError, "the app refuses connections")
	}
	appHadChance := refusesConns || held.appResponded || held.releaseAttempted || !m.cannotGetLease()
	if !appHadChance {
		return
	}
	m.releaseEnds.unreleasedMoves[shard] = now
	m.reportReleaseEnd(shard, held, result, reason, false)
}
