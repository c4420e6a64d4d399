package consensus

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

const (
	pushEvery     = 100 * time.Millisecond
	transferAgain = 5 * time.Millisecond
)

// Bootstrap makes this server the only one of a new cluster. ErrExists: it has a
// log already.
func (r *Raft) Bootstrap() error {
	c := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(r.o.ID), Address: raft.ServerAddress(r.o.ID),
	}}}
	return r.do(func() error { return r.raft.BootstrapCluster(c).Error() })
}

// AddNonvoter adds a server that follows and does not vote.
func (r *Raft) AddNonvoter(server string) error {
	return r.change(server, func(id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return r.raft.AddNonvoter(id, addr, 0, enqueue)
	})
}

// Promote gives a server its vote. It must have caught up: it counts at once.
func (r *Raft) Promote(server string) error {
	return r.change(server, func(id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return r.raft.AddVoter(id, addr, 0, enqueue)
	})
}

// Demote takes a server's vote; it goes on following.
func (r *Raft) Demote(server string) error {
	return r.change(server, func(id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return r.raft.DemoteVoter(id, 0, enqueue)
	})
}

// Remove takes a server out of the configuration.
func (r *Raft) Remove(server string) error {
	return r.change(server, func(id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return r.raft.RemoveServer(id, 0, enqueue)
	})
}

// change runs a change of the configuration. Until it is through it pushes: the
// library sends the entry before it counts the new voter's answers, so a quick
// answer can be lost, and only that to another entry makes up for it.
func (r *Raft) change(server string, f func(raft.ServerID, raft.ServerAddress) raft.Future) error {
	if _, _, err := split(server); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go r.pushing(done)
	return r.do(func() error { return f(raft.ServerID(server), raft.ServerAddress(server)).Error() })
}

// pushing appends an entry every 100 ms until done.
func (r *Raft) pushing(done <-chan struct{}) {
	t := time.NewTicker(pushEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			r.Nudge()
		case <-done:
			return
		}
	}
}

// CaughtUp reports whether a server whose log reaches to last, as it says, has
// all that is committed.
func (r *Raft) CaughtUp(last uint64) bool { return last >= r.raft.CommitIndex() }

// Transfer hands leadership to the voter that is most up to date, and if that one
// does not take it, to another. It returns when this node does not lead any more,
// or after it tried them all, half a second each.
func (r *Raft) Transfer() error {
	err := r.transfer(func() raft.Future { return r.raft.LeadershipTransfer() })
	for _, s := range r.Voters() {
		if err == nil || !r.IsLeader() {
			return nil
		}
		if s != r.o.ID {
			err = r.TransferTo(s)
		}
	}
	return err
}

// TransferTo hands leadership to one voter.
func (r *Raft) TransferTo(server string) error {
	if _, _, err := split(server); err != nil {
		return err
	}
	return r.transfer(func() raft.Future {
		return r.raft.LeadershipTransferToServer(raft.ServerID(server), raft.ServerAddress(server))
	})
}

// transfer runs one transfer. The one before may be answered a moment before the
// library takes the next.
func (r *Raft) transfer(f func() raft.Future) error {
	t := time.NewTicker(transferAgain)
	defer t.Stop()
	for start := time.Now(); ; {
		err := r.do(func() error { return f().Error() })
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) || time.Since(start) > 2*r.o.Election {
			return err
		}
		<-t.C
	}
}

// Rank returns this server's place among the voters, without those of node
// dead, and -1 without a vote. Voters that campaign at the same evidence wait
// longer the higher their rank, so that they do not split the vote.
func (r *Raft) Rank(dead string) int {
	voters := slices.DeleteFunc(r.Voters(), func(id string) bool {
		return strings.HasPrefix(id, dead+"/")
	})
	return slices.Index(voters, r.o.ID)
}

// Campaign starts an election at once, for a voter that has evidence of its
// leader's crash: the server sends itself the message by which a leader hands
// over. That skips the pre-vote, and the others vote though they may still
// believe in the leader; so false evidence costs a leadership, and the log stays
// safe. At most one in two election timeouts. It returns nil if this node is a
// candidate or leads already.
func (r *Raft) Campaign() error {
	switch r.raft.State() {
	case raft.Candidate, raft.Leader:
		return nil
	case raft.Shutdown:
		return translate(raft.ErrRaftShutdown)
	case raft.Follower:
	}
	if r.Rank("") < 0 {
		return ErrNoVote
	}
	now, last := time.Now().UnixNano(), r.campaigns.Load()
	if last != 0 && now-last < int64(2*r.o.Election) || !r.campaigns.CompareAndSwap(last, now) {
		return ErrTooSoon
	}
	return r.do(func() error {
		id, addr := raft.ServerID(r.o.ID), raft.ServerAddress(r.o.ID)
		req := &raft.TimeoutNowRequest{RPCHeader: r.header()}
		return r.trans.TimeoutNow(id, addr, req, &raft.TimeoutNowResponse{})
	})
}

// Snapshot takes a snapshot now.
func (r *Raft) Snapshot() error {
	return r.do(func() error { return r.raft.Snapshot().Error() })
}
