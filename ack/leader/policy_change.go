package leader

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// policyRequest is a queued change of the policy.
type policyRequest struct {
	requestNumber uint64
	changes       []ack.Change
}

// ChangePolicy queues changes of the policy. It returns the number, above zero, that the
// Submit of their entry will have. The entry waits until the fate of the previous one is
// known, so the next proposal uses the new policy. The state shows the result. ErrNotYet,
// ErrChange and ErrPolicyFull refuse the changes.
func (l *Leader) ChangePolicy(changes []ack.Change) (number uint64, err error) {
	if !l.barrierApplied || l.leases.revoked || !l.state.Bootstrapped() {
		return 0, ErrNotYet
	}
	if err := l.state.CheckChanges(changes); err != nil {
		return 0, err
	}
	policy := l.state.Policy()
	for _, request := range l.policyQueue {
		policy, _ = policy.With(policy.ChangedIndex, request.changes)
	}
	if _, err := policy.With(policy.ChangedIndex, changes); err != nil {
		return 0, ack.ErrPolicyFull
	}
	l.policyRequests++
	l.policyQueue = append(l.policyQueue, policyRequest{l.policyRequests, changes})
	return l.policyRequests, nil
}

// submitPolicyChange submits the next queued change. It returns true if there was one.
func (l *Leader) submitPolicyChange(now time.Duration) bool {
	if policy := l.state.Policy(); len(l.policyQueue) == 0 && policy.Pause > 0 && now-l.pauseSeenAt >= policy.Pause {
		// The end of a pause was not requested, so it has no number. No other pause can
		// come before it: this leader submits one entry at a time, and entries of other
		// leaders are void.
		l.policyQueue = append(l.policyQueue, policyRequest{changes: []ack.Change{{Kind: ack.ChangeResume}}})
	}
	if len(l.policyQueue) == 0 {
		if expired := slices.Concat(l.quarantines.expired(now, l.state.Policy()), l.finishGradualDrains(now)); len(expired) > 0 { // not requested, like the end of a pause
			l.policyQueue = append(l.policyQueue, policyRequest{changes: expired[:min(len(expired), ack.MaxChanges)]})
		}
	}
	if len(l.policyQueue) == 0 {
		return false
	}
	next := l.policyQueue[0]
	l.policyQueue = l.policyQueue[1:]
	l.entryInFlight, l.configEntryInFlight, l.submittedAt = true, true, now
	l.emit(Submit{Entry: ack.EncodePolicyChange(l.state.FormatVersion(), ack.PolicyEntry{Term: l.options.Term, Changes: next.changes}), RequestNumber: next.requestNumber})
	return true
}

// policyApplied updates the leader's bookkeeping of pauses, drains and submitted changes after an
// entry has changed the policy. old is the state before the entry.
func (l *Leader) policyApplied(now time.Duration, old *ack.State) {
	before, after := old.Policy(), l.state.Policy()
	if after.PauseIndex != before.PauseIndex {
		l.pauseSeenAt = now
	}
	if len(after.GradualDrains) > 0 {
		l.gradualDrains.drainsStarted(before, after, l.state.Committed())
		// A node that drains gradually reports its idle shards without being asked.
		maps.DeleteFunc(l.stagedMoves.awaitingAnswer, func(id shardmap.NodeID, _ bool) bool { return after.DrainsGradually(id) })
	}
	for id := range before.Drained {
		if !after.Drained[id] {
			setKey(&l.uncordoned, id, true)
		}
	}
	// A node that drains again is no longer uncordoned.
	maps.DeleteFunc(l.uncordoned, func(id shardmap.NodeID, _ bool) bool { return after.IsDraining(id) })
	// A drain that was cancelled cannot be overdue.
	maps.DeleteFunc(l.stagedMoves.overdueDrains, func(id shardmap.NodeID, _ bool) bool { return !after.IsDraining(id) })
	if l.configEntryInFlight && after.ChangedIndex != before.ChangedIndex {
		l.entryInFlight, l.configEntryInFlight = false, false
	}
}

// zones returns the zones of the nodes that have sent a heartbeat in this term. inputsVersion
// changes when the result does.
func (l *Leader) zones() map[shardmap.NodeID]string {
	zones := map[shardmap.NodeID]string{}
	for id, node := range l.members {
		if node.hasHeartbeat() {
			zones[id] = node.heartbeat.Zone
		}
	}
	return zones
}
