package agent

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// runningCall is a hook call without a result.
type runningCall struct {
	HookCall
	deadline  time.Duration // when the attempt fails
	cancelled bool          // App.CancelCall was called
}

// cancelledEarly reports whether the node cancelled the call before its deadline. Such a call has
// not failed.
func (c *runningCall) cancelledEarly(now time.Duration) bool { return c.cancelled && now < c.deadline }

// runningCalls holds the hook calls that have no result yet, and cancels them.
type runningCalls struct {
	app   App
	count uint64                  // calls started by this process
	bySeq map[uint64]*runningCall // by HookCall.Seq
}

// nextSeq returns the Seq of a new call under the given boot.
func (rc *runningCalls) nextSeq(boot uint64) uint64 {
	rc.count++
	return boot<<32 + rc.count
}

// start sends a call to the app. The call runs until removed.
func (rc *runningCalls) start(call *runningCall) {
	rc.bySeq[call.Seq] = call
	rc.app.StartCall(call.HookCall)
}

// remove removes the call with the given Seq, whose result has arrived. It returns nil if there is
// no such call.
func (rc *runningCalls) remove(seq uint64) *runningCall {
	call := rc.bySeq[seq]
	delete(rc.bySeq, seq)
	return call
}

// countOf returns the number of running calls of the given kind to the instance.
func (rc *runningCalls) countOf(kind HookKind, instance shardmap.Instance) int {
	count := 0
	for _, call := range rc.bySeq {
		if call.Kind == kind && call.Instance == instance {
			count++
		}
	}
	return count
}

// cancel cancels a running call. Its result follows later.
func (rc *runningCalls) cancel(call *runningCall) {
	if !call.cancelled {
		call.cancelled = true
		rc.app.CancelCall(call.Seq)
	}
}

// cancelAll cancels every running call, oldest first.
func (rc *runningCalls) cancelAll() {
	for _, seq := range slices.Sorted(maps.Keys(rc.bySeq)) {
		rc.cancel(rc.bySeq[seq])
	}
}

// cancelOverdue cancels the calls whose deadline has passed. It returns the earliest deadline of
// the other calls, or never.
func (rc *runningCalls) cancelOverdue(now time.Duration) (nextDeadline time.Duration) {
	nextDeadline = never
	for _, seq := range slices.Sorted(maps.Keys(rc.bySeq)) {
		if call := rc.bySeq[seq]; now >= call.deadline {
			rc.cancel(call)
		} else {
			nextDeadline = min(nextDeadline, call.deadline)
		}
	}
	return nextDeadline
}
