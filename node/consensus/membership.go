package consensus

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

const pushEvery = 100 * time.Millisecond

// Bootstrap makes this server the only one of a new cluster. ErrExists: it has a
// log already.
func (r *Raft) Bootstrap() error {
	c := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(r.o.ID), Address: raft.ServerAddress(r.o.ID),
	}}}
	return r.ask(func(now *core) raft.Future { return now.BootstrapCluster(c) })
}

// AddNonvoter adds a server that follows and does not vote.
func (r *Raft) AddNonvoter(server string) error {
	return r.change(server, func(c *core, id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return c.AddNonvoter(id, addr, 0, enqueue)
	})
}

// Promote gives a server its vote. It must have caught up: it counts at once.
func (r *Raft) Promote(server string) error {
	return r.change(server, func(c *core, id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return c.AddVoter(id, addr, 0, enqueue)
	})
}

// Demote takes a server's vote away; it follows on.
func (r *Raft) Demote(server string) error {
	return r.change(server, func(c *core, id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return c.DemoteVoter(id, 0, enqueue)
	})
}

// Remove takes a server out of the configuration.
func (r *Raft) Remove(server string) error {
	return r.change(server, func(c *core, id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return c.RemoveServer(id, 0, enqueue)
	})
}

// change runs a change of the configuration. Until it is through it pushes: the
// library sends the entry before it counts the new voter's answers, so a quick
// answer can be lost, and only that to another entry makes up for it.
func (r *Raft) change(server string, f func(*core, raft.ServerID, raft.ServerAddress) raft.Future) error {
	if _, _, err := split(server); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go r.pushing(done)
	return r.ask(func(c *core) raft.Future { return f(c, raft.ServerID(server), raft.ServerAddress(server)) })
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

// Rank returns this server's place among the voters, without those of node
// dead, and -1 without a vote. Voters that campaign at the same evidence wait
// longer the higher their rank, so that they do not split the vote.
func (r *Raft) Rank(dead string) int {
	voters := slices.DeleteFunc(slices.Clone(r.Voters()), func(id string) bool {
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
func (r *Raft) Campaign() error { return r.CampaignIn(r.Term()) }

// CampaignIn is Campaign against the leader of a term: ErrTooLate if the server has
// come to another one by the time that it would stand.
func (r *Raft) CampaignIn(term uint64) error {
	if r.Term() != term {
		return ErrTooLate
	}
	switch r.lib().State() {
	case raft.Candidate, raft.Leader:
		return nil
	case raft.Shutdown:
		return translate(raft.ErrRaftShutdown)
	case raft.Follower:
	}
	if r.Rank("") < 0 {
		return ErrNoVote
	}
	if !r.campaigns.allows(time.Now()) {
		return ErrTooSoon
	}
	return r.do(func() error {
		id, addr := raft.ServerID(r.o.ID), raft.ServerAddress(r.o.ID)
		req := &raft.TimeoutNowRequest{RPCHeader: r.header()}
		req.Addr = inTerm(term)
		err := r.cur.Load().trans.TimeoutNow(id, addr, req, &raft.TimeoutNowResponse{})
		if err != nil && r.Term() != term {
			return ErrTooLate // over a stream it comes as text
		}
		return err
	})
}

// Snapshot takes a snapshot now.
func (r *Raft) Snapshot() error {
	return r.ask(func(c *core) raft.Future { return c.Snapshot() })
}
