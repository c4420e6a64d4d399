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
type asked struct {
	number  uint64
	changes []Change
}

// Amend puts changes of the policy in line and returns the number that the Submit of
// their entry will have; above zero. Like every entry of this leader it waits until
// the one before it has come to something, so what is proposed next goes by it. The
// caller sees in the state what came of it. ErrNotYet, ErrChange and
// ErrPolicyFull refuse it.
func (l *Leader) Amend(changes []Change) (number uint64, err error) {
	if !l.barrier || l.grants.revoked || !l.state.Born() {
		return 0, ErrNotYet
	}
	if err := l.readable(changes); err != nil {
		return 0, err
	}
	p := l.state.Policy()
	for _, a := range l.line {
		p, _ = p.With(p.Since, a.changes)
	}
	if _, err := p.With(p.Since, changes); err != nil {
		return 0, ErrPolicyFull
	}
	l.asks++
	l.line = append(l.line, asked{l.asks, changes})
	return l.asks, nil
}

// readable returns an ErrChange if the entry of these changes could not be read, or
// read as other ones. They may come from a node that speaks of more, or amiss.
func (l *Leader) readable(changes []Change) error {
	if len(changes) > maxChanges {
		return ErrPolicyFull
	}
	if _, _, err := decodeCommand(encodeAmending(l.state.Level(), amending{changes: changes})); err != nil {
		return fmt.Errorf("%w: %w", ErrChange, err)
	}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.Kind == ChangePin && c.Node != "" && c.Zone != "" }) {
		return fmt.Errorf("%w: a pin to a node and to a zone", ErrChange)
	}
	return nil
}

// amend submits what is next in line, and reports whether anything was.
func (l *Leader) amend(now time.Duration) bool {
	if p := l.state.Policy(); len(l.line) == 0 && p.Pause > 0 && now-l.pausedAt >= p.Pause {
		// Nobody asked, so it has no number. Another pause cannot come before it: this
		// leader puts one after the other, and the entries of others are void.
		l.line = append(l.line, asked{changes: []Change{{Kind: ChangeResume}}})
	}
	if len(l.line) == 0 {
		if over := slices.Concat(l.ends.over(now, l.state.Policy()), l.emptied(now)); len(over) > 0 { // as with the pause
			l.line = append(l.line, asked{changes: over[:min(len(over), maxChanges)]})
		}
	}
	if len(l.line) == 0 {
		return false
	}
	next := l.line[0]
	l.line = l.line[1:]
	l.submitting, l.amending, l.submitted = true, true, now
	l.emit(Submit{Entry: encodeAmending(l.state.Level(), amending{term: l.o.Term, changes: next.changes}), Asked: next.number})
	return true
}

// amended looks at the policy of a newer state.
func (l *Leader) amended(now time.Duration, old *State) {
	was, is := old.Policy(), l.state.Policy()
	if is.PausedBy != was.PausedBy {
		l.pausedAt = now
	}
	if len(is.Emptying) > 0 {
		l.empties.begin(was, is, l.state.Committed())
		maps.DeleteFunc(l.stages.unanswered, func(id shardmap.NodeID, _ bool) bool { return is.empties(id) })
	}
	maps.DeleteFunc(l.stages.due, func(id shardmap.NodeID, _ bool) bool { return !is.Leaves(id) })
	if l.amending && is.Since != was.Since {
		l.submitting, l.amending = false, false
	}
}

// zones returns where the nodes that were heard in this term stand. It says the same
// as long as zoned does.
func (l *Leader) zones() map[shardmap.NodeID]string {
	zones := map[shardmap.NodeID]string{}
	for id, n := range l.nodes {
		if n.heard() {
			zones[id] = n.beat.Zone
		}
	}
	return zones
}
