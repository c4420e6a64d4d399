package consensus

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// pushInterval is the interval of entries during a change of the configuration.
const pushInterval = 100 * time.Millisecond

// Bootstrap makes this server the only server of a new cluster. It returns ErrExists if the server
// already has a log.
func (r *Raft) Bootstrap() error {
	c := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(r.o.ID), Address: raft.ServerAddress(r.o.ID),
	}}}
	return r.call(func(now *instance) raft.Future { return now.BootstrapCluster(c) })
}

// AddNonvoter adds a server that replicates the log but does not vote.
func (r *Raft) AddNonvoter(server string) error {
	return r.changeConfiguration(server, func(c *instance, id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return c.AddNonvoter(id, addr, 0, enqueueTimeout)
	})
}

// Promote makes a server a voter. The server must have caught up, because its vote counts
// immediately.
func (r *Raft) Promote(server string) error {
	return r.changeConfiguration(server, func(c *instance, id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return c.AddVoter(id, addr, 0, enqueueTimeout)
	})
}

// Demote makes a voter a non-voter.
func (r *Raft) Demote(server string) error {
	return r.changeConfiguration(server, func(c *instance, id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return c.DemoteVoter(id, 0, enqueueTimeout)
	})
}

// Remove removes a server from the configuration.
func (r *Raft) Remove(server string) error {
	return r.changeConfiguration(server, func(c *instance, id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return c.RemoveServer(id, 0, enqueueTimeout)
	})
}

// changeConfiguration changes the configuration, and appends entries until the change is complete.
// The library sends the entry before it counts responses of the new voter. A quick response can
// therefore be lost, and only the response to a later entry compensates for this.
func (r *Raft) changeConfiguration(server string, f func(*instance, raft.ServerID, raft.ServerAddress) raft.Future) error {
	if _, _, err := split(server); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go r.nudgeUntil(done)
	return r.call(func(c *instance) raft.Future { return f(c, raft.ServerID(server), raft.ServerAddress(server)) })
}

// nudgeUntil appends an entry every pushInterval until done is closed.
func (r *Raft) nudgeUntil(done <-chan struct{}) {
	t := time.NewTicker(pushInterval)
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

// Rank returns the position of this server among the voters, without those of the node dead. It
// returns -1 if this server is not a voter. Voters that campaign for the same reason wait longer
// the higher their rank, so that they do not split the vote.
func (r *Raft) Rank(dead string) int {
	voters := slices.DeleteFunc(slices.Clone(r.Voters()), func(id string) bool {
		return strings.HasPrefix(id, dead+"/")
	})
	return slices.Index(voters, r.o.ID)
}

// Campaign starts an election immediately. It is for a voter with evidence that its leader has
// crashed. The server sends itself the message of a leadership transfer. This skips the pre-vote,
// and other servers vote even if they still follow the leader. So wrong evidence costs a
// leadership, but the log remains safe. At most one campaign per two election timeouts is
// possible. It returns nil if this server is already candidate or leader.
func (r *Raft) Campaign() error { return r.CampaignIn(r.Term()) }

// CampaignIn is Campaign against the leader of a term. It returns ErrTooLate if the server has
// reached another term before the election starts.
func (r *Raft) CampaignIn(term uint64) error {
	if r.Term() != term {
		return ErrTooLate
	}
	switch r.library().State() {
	case raft.Candidate, raft.Leader:
		return nil
	case raft.Shutdown:
		return translate(raft.ErrRaftShutdown)
	case raft.Follower:
	}
	if r.Rank("") < 0 {
		return ErrNoVote
	}
	if !r.campaignLimit.allow(time.Now()) {
		return ErrTooSoon
	}
	return r.runUntilStopped(func() error {
		id, addr := raft.ServerID(r.o.ID), raft.ServerAddress(r.o.ID)
		req := &raft.TimeoutNowRequest{RPCHeader: r.header()}
		req.Addr = campaignTerm(term)
		err := r.current.Load().trans.TimeoutNow(id, addr, req, &raft.TimeoutNowResponse{})
		if err != nil && r.Term() != term {
			return ErrTooLate // a stream transports the error only as text
		}
		return err
	})
}

// Snapshot takes a snapshot immediately.
func (r *Raft) Snapshot() error {
	return r.call(func(c *instance) raft.Future { return c.Snapshot() })
}
