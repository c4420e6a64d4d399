package agent

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// heldShard is the state of one shard at the app: whether the app has loaded (acquired) or written
// (released) it. The zero value has the phase HookNotHeld.
type heldShard struct {
	// epoch is the ownership epoch to which all other fields refer: the epoch of the map in which
	// this node became the owner.
	epoch shardmap.Epoch
	// instance is the app instance that holds the shard under epoch.
	instance shardmap.Instance
	// service and firstShard are the service of the shard under epoch, and the first shard of its range.
	// The list of services may change while the app holds the shard, but the app still knows it by this
	// number. service is empty if the cluster has no list of services.
	service    string
	firstShard shardmap.Shard
	// callSeq is the Seq of the running call that names the shard; zero means none.
	callSeq uint64
	phaseState

	// State at the app.
	appMayHold bool // the app may hold the shard under epoch
	served     bool // the shard has served under epoch
	// released is set if the app has released the shard since it last served, and left note. A new
	// acquire call voids both.
	released bool
	note     []byte
	// abortedRequests counts the requests that were aborted for the current move.
	abortedRequests int

	// needsLostCall is set if the app must be informed, by a call of the hook "lost", that the node has
	// lost the shard. The call is retried until lostCallDeadline.
	needsLostCall    bool
	lostCallDeadline time.Duration
}

// phaseState is the part of heldShard that is reset with each phase change.
type phaseState struct {
	phase      HookPhase // zero means HookNotHeld
	phaseSince time.Duration

	// Calls of this phase.
	nextAttempt time.Duration // no call before this time
	retryPause  time.Duration // pause before nextAttempt; doubles with each failure
	maxBatch    int           // maximum number of shards in the next call that names this one
	lastError   string        // of the last failed attempt; empty means none

	// Acquiring.
	appAcquired     bool // the app has acquired the shard, but the node does not serve it yet
	acquireFailures int  // failed acquire calls

	// Releasing.
	releaseAttempted bool // a release call was sent, so the app may have released the shard
	appResponded     bool // the app responded with an error before the timeout
}

// isNotHeld reports whether the app does not hold the shard, as far as the node knows.
func (hs *heldShard) isNotHeld() bool { return hs.phase == 0 || hs.phase == HookNotHeld }

// setPhase begins a phase. Calls for it may start now.
func (hs *heldShard) setPhase(now time.Duration, phase HookPhase) {
	hs.phaseState = phaseState{phase: phase, phaseSince: now, nextAttempt: now, maxBatch: MaxHookShards}
}

// beginAcquiring starts acquiring a shard that the node owns and the app does not hold. If the ownership epoch has
// changed, another node has owned the shard in between, so all earlier state is void.
func (hs *heldShard) beginAcquiring(now time.Duration, ownership shardOwnership) {
	if !ownership.isOwnerUnder(hs.epoch) {
		hs.appMayHold, hs.served = false, false
		hs.released, hs.note = false, nil
	}
	hs.epoch, hs.instance, hs.needsLostCall = ownership.epoch, ownership.instance, false
	hs.setPhase(now, HookAcquiring)
}

// setService stores the service of a shard that the app is about to acquire.
func (hs *heldShard) setService(state *ack.State, shard shardmap.Shard) {
	hs.service, hs.firstShard = "", 0
	if !state.HasServices() {
		return
	}
	if service, found := state.ServiceOf(shard); found {
		hs.service, hs.firstShard = service.Name, service.First
	}
}

// resume ends the release of a shard that the log no longer moves (rule 6). If a release call was
// sent, the app must acquire the shard again.
func (hs *heldShard) resume(now time.Duration) {
	if hs.releaseAttempted {
		hs.setPhase(now, HookAcquiring)
		return
	}
	hs.setPhase(now, HookServing)
}

// abandon gives up a shard without a release. The app gets a lost call if it may hold the
// shard.
func (hs *heldShard) abandon(now time.Duration) {
	hs.setPhase(now, HookNotHeld)
	hs.needsLostCall, hs.lostCallDeadline = hs.appMayHold, now+lostCallRetryTime
}

// countAcquireFailure counts a failed acquire call. causedTimeout is set if the call timed out and
// only this shard can be the cause. The shard then becomes stuck immediately: AcquireTimeout is
// long, so the node does not wait for more failures.
func (hs *heldShard) countAcquireFailure(causedTimeout bool) {
	hs.acquireFailures++
	if causedTimeout {
		hs.acquireFailures = max(hs.acquireFailures, stuckAttempts)
	}
}

// recordError stores the error of a failed call for status and events. responded is set if the app
// responded before the timeout. Its error explains more than a timeout, so a later timeout does not
// replace it.
func (hs *heldShard) recordError(reason string, responded bool) {
	if responded || !hs.appResponded {
		hs.lastError = reason
	}
	hs.appResponded = hs.appResponded || responded
}

// servingEpoch returns the ownership epoch under which the shard serves; zero if it does not.
func (hs *heldShard) servingEpoch() shardmap.Epoch {
	if hs.phase != HookServing {
		return 0
	}
	return hs.epoch
}
