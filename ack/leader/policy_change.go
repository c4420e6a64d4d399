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
	number  uint64
	changes []ack.Change
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
	p := l.state.Policy()
	for _, a := range l.policyQueue {
		p, _ = p.With(p.Since, a.changes)
	}
	if _, err := p.With(p.Since, changes); err != nil {
		return 0, ack.ErrPolicyFull
	}
	l.policyRequests++
	l.policyQueue = append(l.policyQueue, policyRequest{l.policyRequests, changes})
	return l.policyRequests, nil
}

// submitPolicyChange submits the next queued change. It returns true if there was one.
func (l *Leader) submitPolicyChange(now time.Duration) bool {
	if p := l.state.Policy(); len(l.policyQueue) == 0 && p.Pause > 0 && now-l.pauseSeenAt >= p.Pause {
		// The end of a pause was not requested, so it has no number. No other pause can
		// come before it: this leader submits one entry at a time, and entries of other
		// leaders are void.
		l.policyQueue = append(l.policyQueue, policyRequest{changes: []ack.Change{{Kind: ack.ChangeResume}}})
	}
	if len(l.policyQueue) == 0 {
		if over := slices.Concat(l.quarantines.expired(now, l.state.Policy()), l.finishGradualDrains(now)); len(over) > 0 { // not requested, like the end of a pause
			l.policyQueue = append(l.policyQueue, policyRequest{changes: over[:min(len(over), ack.MaxChanges)]})
		}
	}
	if len(l.policyQueue) == 0 {
		return false
	}
	next := l.policyQueue[0]
	l.policyQueue = l.policyQueue[1:]
	l.submitting, l.submittingChange, l.submitted = true, true, now
	l.emit(Submit{Entry: ack.EncodePolicyChange(l.state.Level(), ack.PolicyEntry{Term: l.o.Term, Changes: next.changes}), Asked: next.number})
	return true
}

// policyApplied compares the policies of the previous and the new state.
func (l *Leader) policyApplied(now time.Duration, old *ack.State) {
	was, is := old.Policy(), l.state.Policy()
	if is.PausedBy != was.PausedBy {
		l.pauseSeenAt = now
	}
	if len(is.GradualDrains) > 0 {
		l.gradual.drainsStarted(was, is, l.state.Committed())
		maps.DeleteFunc(l.stages.unanswered, func(id shardmap.NodeID, _ bool) bool { return is.DrainsGradually(id) })
	}
	for id := range was.Drained {
		if !is.Drained[id] {
			setKey(&l.uncordoned, id, true)
		}
	}
	maps.DeleteFunc(l.uncordoned, func(id shardmap.NodeID, _ bool) bool { return is.Leaves(id) })
	maps.DeleteFunc(l.stages.overdueDrains, func(id shardmap.NodeID, _ bool) bool { return !is.Leaves(id) })
	if l.submittingChange && is.Since != was.Since {
		l.submitting, l.submittingChange = false, false
	}
}

// zones returns the zones of the nodes that have sent a heartbeat in this term. inputsVersion
// changes when the result does.
func (l *Leader) zones() map[shardmap.NodeID]string {
	zones := map[shardmap.NodeID]string{}
	for id, n := range l.members {
		if n.hasHeartbeat() {
			zones[id] = n.heartbeat.Zone
		}
	}
	return zones
}
