package ack

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// ErrChange reports a change of the policy that is none. It would be one more entry
// of the log, and each node would stop at it for good.
var ErrChange = errors.New("ack: no change of the policy")

// asked are changes of the policy that wait for their turn.
type policyRequest struct {
	number  uint64
	changes []Change
}

// Amend puts changes of the policy in line and returns the number that the Submit of
// their entry will have; above zero. Like every entry of this leader it waits until
// the one before it has come to something, so what is proposed next goes by it. The
// caller sees in the state what came of it. ErrNotYet, ErrChange and
// ErrPolicyFull refuse it.
func (l *Leader) ChangePolicy(changes []Change) (number uint64, err error) {
	if !l.barrierApplied || l.leases.revoked || !l.state.Bootstrapped() {
		return 0, ErrNotYet
	}
	if err := l.checkChanges(changes); err != nil {
		return 0, err
	}
	p := l.state.Policy()
	for _, a := range l.policyQueue {
		p, _ = p.With(p.Since, a.changes)
	}
	if _, err := p.With(p.Since, changes); err != nil {
		return 0, ErrPolicyFull
	}
	l.policyRequests++
	l.policyQueue = append(l.policyQueue, policyRequest{l.policyRequests, changes})
	return l.policyRequests, nil
}

// readable returns an ErrChange if the entry of these changes could not be read, or
// read as other ones. They may come from a node that speaks of more, or amiss.
func (l *Leader) checkChanges(changes []Change) error {
	if len(changes) > maxChanges {
		return ErrPolicyFull
	}
	if _, _, err := decodeCommand(encodePolicyChange(l.state.Level(), policyEntry{changes: changes})); err != nil {
		return fmt.Errorf("%w: %w", ErrChange, err)
	}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.Kind == ChangePin && c.Node != "" && c.Zone != "" }) {
		return fmt.Errorf("%w: a pin to a node and to a zone", ErrChange)
	}
	return nil
}

// amend submits what is next in line, and reports whether anything was.
func (l *Leader) submitPolicyChange(now time.Duration) bool {
	if p := l.state.Policy(); len(l.policyQueue) == 0 && p.Pause > 0 && now-l.pauseSeenAt >= p.Pause {
		// Nobody asked, so it has no number. Another pause cannot come before it: this
		// leader puts one after the other, and the entries of others are void.
		l.policyQueue = append(l.policyQueue, policyRequest{changes: []Change{{Kind: ChangeResume}}})
	}
	if len(l.policyQueue) == 0 {
		if over := slices.Concat(l.quarantines.expired(now, l.state.Policy()), l.finishGradualDrains(now)); len(over) > 0 { // as with the pause
			l.policyQueue = append(l.policyQueue, policyRequest{changes: over[:min(len(over), maxChanges)]})
		}
	}
	if len(l.policyQueue) == 0 {
		return false
	}
	next := l.policyQueue[0]
	l.policyQueue = l.policyQueue[1:]
	l.submitting, l.submittingChange, l.submitted = true, true, now
	l.emit(Submit{Entry: encodePolicyChange(l.state.Level(), policyEntry{term: l.o.Term, changes: next.changes}), Asked: next.number})
	return true
}

// amended looks at the policy of a newer state.
func (l *Leader) policyApplied(now time.Duration, old *State) {
	was, is := old.Policy(), l.state.Policy()
	if is.PausedBy != was.PausedBy {
		l.pauseSeenAt = now
	}
	if len(is.GradualDrains) > 0 {
		l.gradual.drainsStarted(was, is, l.state.Committed())
		maps.DeleteFunc(l.stages.unanswered, func(id shardmap.NodeID, _ bool) bool { return is.drainsGradually(id) })
	}
	maps.DeleteFunc(l.stages.overdueDrains, func(id shardmap.NodeID, _ bool) bool { return !is.Leaves(id) })
	if l.submittingChange && is.Since != was.Since {
		l.submitting, l.submittingChange = false, false
	}
}

// zones returns where the nodes that were heard in this term stand. It says the same
// as long as zoned does.
func (l *Leader) zones() map[shardmap.NodeID]string {
	zones := map[shardmap.NodeID]string{}
	for id, n := range l.members {
		if n.heard() {
			zones[id] = n.heartbeat.Zone
		}
	}
	return zones
}
