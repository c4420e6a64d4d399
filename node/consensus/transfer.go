package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// transferPollInterval is the interval at which waitFor checks its condition.
const transferPollInterval = 2 * time.Millisecond

// errNoSuccessor means that no other voter can become leader.
var errNoSuccessor = errors.New("consensus: no other voter to lead")

// Transfer transfers the leadership to another voter. It tries the voters for which keepsUp returns
// true first, and voters with a longer log before others. It returns when this node no longer leads, or
// after it has tried all voters, for about 0.5 s each. keepsUp reports whether a server applies the
// entries that it receives. Raft itself knows only whether the server has stored them.
//
// Transfer sends the TimeoutNow message of the Raft library, but does not use the Raft library's
// LeadershipTransfer. The Raft library selects dead voters and accepts no entries during the transfer, and
// it can remain in this state permanently, because it waits for a goroutine that has ended. Transfer
// continues to accept entries. The outcome of an entry at the last moment may be unknown.
//
//nolint:contextcheck // it ends with Raft, not with the request
func (r *Raft) Transfer(keepsUp func(server string) bool) error {
	term, leads := r.Leadership()
	if !leads {
		return translateError(raft.ErrNotLeader)
	}
	voters := slices.DeleteFunc(slices.Clone(r.Voters()), func(server string) bool { return server == r.options.ID })
	slices.SortStableFunc(voters, func(a, b string) int {
		return cmp.Compare(r.matchIndexes.matchIndex(b, term), r.matchIndexes.matchIndex(a, term))
	})
	var preferred, others []string
	for _, server := range voters {
		if keepsUp(server) {
			preferred = append(preferred, server)
		} else {
			others = append(others, server)
		}
	}
	err := errNoSuccessor
	for _, server := range append(preferred, others...) {
		if err = r.transferTo(term, server); err == nil {
			break
		}
	}
	return err
}

// TransferTo transfers leadership to one voter. It returns when this node no longer leads, which does not mean that
// the voter leads: another server may have been elected at the same time.
//
//nolint:contextcheck // it ends with Raft, not with the request
func (r *Raft) TransferTo(server string) error {
	term, leads := r.Leadership()
	if !leads {
		return translateError(raft.ErrNotLeader)
	}
	if !slices.Contains(r.Voters(), server) {
		return ErrNotVoter
	}
	return r.transferTo(term, server)
}

// SteppedDown reports whether this node has asked another server to take over its leadership of a term.
func (r *Raft) SteppedDown(term uint64) bool { return r.transferTerm.Load() == term }

// transferTo makes a server campaign once the server has the whole log. It returns nil when this
// node no longer leads in term.
func (r *Raft) transferTo(term uint64, server string) error {
	return r.runUntilStopped(func() error {
		inst := r.current.Load()
		if err := inst.transport.layer.probe(raft.ServerAddress(server), r.options.ElectionTimeout); err != nil {
			return err
		}
		hasWholeLog := func() bool { return r.matchIndexes.matchIndex(server, term) >= inst.LastIndex() }
		if !hasWholeLog() {
			r.PropagateCommit() // otherwise the server may receive the missing entries only after commitRepeatInterval
		}
		if !r.waitFor(term, hasWholeLog) {
			return fmt.Errorf("%s lags behind", server)
		}
		if currentTerm, leads := r.Leadership(); !leads || currentTerm != term {
			return nil // a campaign now would depose the new leader
		}
		r.transferTerm.Store(term)
		req := &raft.TimeoutNowRequest{RPCHeader: inst.header()}
		if err := inst.transport.TimeoutNow(raft.ServerID(server), raft.ServerAddress(server), req, &raft.TimeoutNowResponse{}); err != nil {
			r.transferTerm.CompareAndSwap(term, 0)
			return err
		}
		if !r.waitFor(term, func() bool { return false }) {
			r.transferTerm.CompareAndSwap(term, 0)
			return fmt.Errorf("%s was not elected", server)
		}
		return nil
	})
}

// waitFor waits up to an election timeout until condition returns true, or until this node is no longer
// the leader of the term. It returns false on timeout.
func (r *Raft) waitFor(term uint64, condition func() bool) bool {
	ticker := time.NewTicker(transferPollInterval)
	defer ticker.Stop()
	for start := time.Now(); time.Since(start) <= r.options.ElectionTimeout; <-ticker.C {
		if currentTerm, leads := r.Leadership(); condition() || !leads || currentTerm != term {
			return true
		}
	}
	return false
}
