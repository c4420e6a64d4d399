package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const handOverLook = 2 * time.Millisecond

// errNoSuccessor reports that nobody could take leadership over.
var errNoSuccessor = errors.New("consensus: no other voter to lead")

// Transfer hands leadership to the voter whose log reaches furthest, of those that keep up if
// there are some, and if that one does not take it, to another. It returns when this node does
// not lead any more, or after it tried them all, about half a second each. Who keeps up is the
// caller's to know: a server may have all of the log and apply nothing.
//
// It does what the library's own transfer does, by its messages. That one picks
// voters that are dead, takes no entries meanwhile, and can be stuck in this state
// for as long as the process lives (leadershipTransfer waits for a goroutine that
// has ended). Here entries are taken; one that comes at the last moment may have
// an unknown outcome.
//
//nolint:contextcheck // it ends with Raft, whoever asked for it
func (r *Raft) Transfer(keepsUp func(server string) bool) error {
	term, leads := r.Leadership()
	if !leads {
		return translate(raft.ErrNotLeader)
	}
	voters := slices.DeleteFunc(slices.Clone(r.Voters()), func(s string) bool { return s == r.o.ID })
	slices.SortStableFunc(voters, func(a, b string) int {
		return cmp.Compare(r.progress.of(b, term), r.progress.of(a, term))
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
		if err = r.handOver(term, s); err == nil {
			break
		}
	}
	return err
}

// handOver makes server stand for election once it has the whole log, and returns
// nil when this node does not lead in term any more.
func (r *Raft) handOver(term uint64, server string) error {
	return r.do(func() error {
		c := r.cur.Load()
		if err := c.trans.layer.probe(raft.ServerAddress(server), r.o.Election); err != nil {
			return err
		}
		hasAll := func() bool { return r.progress.of(server, term) >= c.LastIndex() }
		if !hasAll() {
			r.Nudge() // what it lacks may else be sent when the leader repeats what it has said, see statedAgain
		}
		if !r.waitFor(term, hasAll) {
			return fmt.Errorf("%s lags behind", server)
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

// waitFor waits for cond at most an election timeout. The end of the leadership
// counts as well.
func (r *Raft) waitFor(term uint64, cond func() bool) bool {
	t := time.NewTicker(handOverLook)
	defer t.Stop()
	for start := time.Now(); time.Since(start) <= r.o.Election; <-t.C {
		if now, leads := r.Leadership(); cond() || !leads || now != term {
			return true
		}
	}
	return false
}
