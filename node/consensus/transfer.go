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

// Transfer transfers leadership to the voter with the longest log, preferably one for which
// keepsUp returns true, and to the next one if this fails. It returns when this node no longer
// leads, or after it has tried all voters, about 0.5 s each. The caller provides keepsUp, because
// a server can have the whole log without applying it.
//
// It uses the messages of the transfer in the library, but not its code. That code selects dead
// voters, accepts no entries during the transfer, and can remain in this state permanently
// (leadershipTransfer waits for a goroutine that has ended). Transfer continues to accept entries;
// the outcome of an entry at the last moment may be unknown.
//
//nolint:contextcheck // it ends with Raft, not with the request
func (r *Raft) Transfer(keepsUp func(server string) bool) error {
	term, leads := r.Leadership()
	if !leads {
		return translate(raft.ErrNotLeader)
	}
	voters := slices.DeleteFunc(slices.Clone(r.Voters()), func(s string) bool { return s == r.o.ID })
	slices.SortStableFunc(voters, func(a, b string) int {
		return cmp.Compare(r.progress.matchIndex(b, term), r.progress.matchIndex(a, term))
	})
	var first, last []string
	for _, s := range voters {
		if keepsUp(s) {
			first = append(first, s)
		} else {
			last = append(last, s)
		}
	}
	err := errNoSuccessor
	for _, s := range append(first, last...) {
		if err = r.transferTo(term, s); err == nil {
			break
		}
	}
	return err
}

// transferTo makes a server campaign once it has the whole log. It returns nil when this node no
// longer leads in term.
func (r *Raft) transferTo(term uint64, server string) error {
	return r.runUntilStopped(func() error {
		c := r.current.Load()
		if err := c.trans.layer.probe(raft.ServerAddress(server), r.o.Election); err != nil {
			return err
		}
		hasAll := func() bool { return r.progress.matchIndex(server, term) >= c.LastIndex() }
		if !hasAll() {
			r.Nudge() // otherwise the server may receive the missing entries only after commitRepeatInterval
		}
		if !r.waitFor(term, hasAll) {
			return fmt.Errorf("%s lags behind", server)
		}
		if now, leads := r.Leadership(); !leads || now != term {
			return nil // a campaign now would depose the new leader
		}
		req := &raft.TimeoutNowRequest{RPCHeader: r.header()}
		if err := c.trans.TimeoutNow(raft.ServerID(server), raft.ServerAddress(server), req, &raft.TimeoutNowResponse{}); err != nil {
			return err
		}
		if !r.waitFor(term, func() bool { return false }) {
			return fmt.Errorf("%s was not elected", server)
		}
		return nil
	})
}

// waitFor waits up to an election timeout until cond holds or this node no longer leads in term.
// It returns false on timeout.
func (r *Raft) waitFor(term uint64, cond func() bool) bool {
	t := time.NewTicker(transferPollInterval)
	defer t.Stop()
	for start := time.Now(); time.Since(start) <= r.o.Election; <-t.C {
		if now, leads := r.Leadership(); cond() || !leads || now != term {
			return true
		}
	}
	return false
}
