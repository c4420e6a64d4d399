package leader

import (
	"slices"
	"time"

	"shardway/ack"
)

// policyQueue contains the policy changes that are not submitted yet.
type policyQueue struct {
	requests    []policyRequest
	lastNumber  uint64        // number of the last requested change
	pauseSeenAt time.Duration // when the current pause was first seen; initially the election
	quarantines quarantineTimers
}

// policyRequest is a queued change of the policy. Its number is zero if no operator requested it.
type policyRequest struct {
	number  uint64
	changes []ack.Change
}

// add queues requested changes and returns their number.
func (q *policyQueue) add(state *ack.State, changes []ack.Change) (number uint64, err error) {
	if err := state.CheckChanges(changes); err != nil {
		return 0, err
	}
	policy := state.Policy()
	for _, request := range q.requests {
		policy, _ = policy.With(policy.ChangedIndex, request.changes)
	}
	if _, err := policy.With(policy.ChangedIndex, changes); err != nil {
		return 0, ack.ErrPolicyFull
	}
	q.lastNumber++
	q.requests = append(q.requests, policyRequest{q.lastNumber, changes})
	return q.lastNumber, nil
}

// addExpirations queues the end of the changes that an operator has limited in time: a pause, quarantines and
// gradual drains. It does so only if the queue is empty.
func (q *policyQueue) addExpirations(in inputs, drains *gradualDrains) {
	policy := in.state.Policy()
	if len(q.requests) == 0 && policy.Pause > 0 && in.now-q.pauseSeenAt >= policy.Pause {
		// No other pause can come before it: this leader submits one entry at a time, and
		// entries of other leaders are void.
		q.requests = append(q.requests, policyRequest{changes: []ack.Change{{Kind: ack.ChangeResume}}})
	}
	if len(q.requests) == 0 {
		expired := slices.Concat(q.quarantines.expiryChanges(in.now, policy), drains.finished(in))
		if len(expired) > 0 {
			q.requests = append(q.requests, policyRequest{changes: expired[:min(len(expired), ack.MaxChanges)]})
		}
	}
}

// addServiceList queues the creation of the list of services once a node reports services. No map with the
// app instances of such a node may be proposed before, because a later leader would not know which
// instance runs which service.
func (q *policyQueue) addServiceList(in inputs, nodes *memberTracker) {
	if len(q.requests) > 0 || in.state.HasServices() || !in.state.FormatVersion().HasServices() || !nodes.anyReportsServices() {
		return
	}
	change := ack.Change{Kind: ack.ChangeAddService, Service: ack.DefaultService, Shards: in.state.Shards()}
	q.requests = append(q.requests, policyRequest{changes: []ack.Change{change}})
}

// addLoadedServices queues the addition of services that all nodes have loaded. The services then exist when the key
// configuration with their routes becomes active, because a queued change precedes every proposal.
func (q *policyQueue) addLoadedServices(in inputs, nodes *memberTracker, membership *membership, keyConfig *keyConfigChange) {
	if len(q.requests) > 0 {
		return
	}
	if changes := keyConfig.missingServices(in, nodes, membership); len(changes) > 0 {
		q.requests = append(q.requests, policyRequest{changes: changes})
	}
}

// pop removes and returns the oldest change. ok is false if there is none.
func (q *policyQueue) pop() (request policyRequest, ok bool) {
	if len(q.requests) == 0 {
		return policyRequest{}, false
	}
	request = q.requests[0]
	q.requests = q.requests[1:]
	return request, true
}

// applyPolicy records when the leader saw the last change of the pause.
func (q *policyQueue) applyPolicy(now time.Duration, before, after *ack.Policy) {
	if after.PauseIndex != before.PauseIndex {
		q.pauseSeenAt = now
	}
}

// ChangePolicy queues changes of the policy. It returns the number, above zero, that the
// Submit of their entry will have. The entry waits until the outcome of the previous one is
// known, so the next proposal uses the new policy. The state shows the result. ErrNotYet,
// ErrChange (also as a *ack.ServiceError) and ErrPolicyFull refuse the changes.
func (l *Leader) ChangePolicy(changes []ack.Change) (number uint64, err error) {
	if !l.acceptsRequests() {
		return 0, ErrNotYet
	}
	if err := l.checkServiceRemovals(changes); err != nil {
		return 0, err
	}
	return l.policyQueue.add(l.in.state, changes)
}

// submitPolicyChange submits the next queued change. It returns true if there was one.
func (l *Leader) submitPolicyChange() bool {
	l.policyQueue.addExpirations(l.in, &l.drains)
	l.policyQueue.addServiceList(l.in, &l.members)
	l.policyQueue.addLoadedServices(l.in, &l.members, &l.membership, &l.keyConfig)
	next, ok := l.policyQueue.pop()
	if !ok {
		return false
	}
	entry := ack.PolicyEntry{Term: l.in.term, Changes: next.changes}
	l.submitConfig(ack.EncodePolicyChange(l.in.state.FormatVersion(), entry), next.number)
	return true
}

// applyPolicy informs the parts of the leader about an applied log entry that can have changed the
// policy: those that track pauses, drains and the submitted change. old is the state before the entry.
func (l *Leader) applyPolicy(old *ack.State) {
	before, after := old.Policy(), l.in.state.Policy()
	l.policyQueue.applyPolicy(l.in.now, before, after)
	if len(after.GradualDrains) > 0 {
		l.idle.drainsStarted(before, after, l.in.state.Committed())
		l.staged.drainsStarted(after)
	}
	l.membership.applyPolicy(before, after)
	l.drains.applyPolicy(after)
	if after.ChangedIndex != before.ChangedIndex {
		l.pending.applyConfig()
	}
}
