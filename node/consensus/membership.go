package consensus

import (
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// propagateInterval is the interval of entries during a change of the configuration.
const propagateInterval = 100 * time.Millisecond

// Bootstrap makes this server the only server of a new cluster. It returns ErrExists if the server
// already has a log.
func (r *Raft) Bootstrap() error {
	configuration := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(r.options.ID), Address: raft.ServerAddress(r.options.ID),
	}}}
	return r.callLibrary(func(inst *instance) raft.Future { return inst.BootstrapCluster(configuration) })
}

// AddNonvoter adds a server that replicates the log but does not vote.
func (r *Raft) AddNonvoter(server string) error {
	return r.changeConfiguration(server, func(inst *instance, id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return inst.AddNonvoter(id, addr, 0, enqueueTimeout)
	})
}

// Promote makes a server a voter. The server must have caught up, because its vote counts
// immediately.
func (r *Raft) Promote(server string) error {
	return r.changeConfiguration(server, func(inst *instance, id raft.ServerID, addr raft.ServerAddress) raft.Future {
		return inst.AddVoter(id, addr, 0, enqueueTimeout)
	})
}

// Demote makes a voter a non-voter.
func (r *Raft) Demote(server string) error {
	return r.changeConfiguration(server, func(inst *instance, id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return inst.DemoteVoter(id, 0, enqueueTimeout)
	})
}

// Remove removes a server from the configuration.
func (r *Raft) Remove(server string) error {
	return r.changeConfiguration(server, func(inst *instance, id raft.ServerID, _ raft.ServerAddress) raft.Future {
		return inst.RemoveServer(id, 0, enqueueTimeout)
	})
}

// changeConfiguration changes the configuration, and appends entries until the change is complete.
// The Raft library sends the entry before it counts responses of the new voter. A quick response can
// therefore be lost, and only the response to a later entry compensates for this.
func (r *Raft) changeConfiguration(server string, change func(*instance, raft.ServerID, raft.ServerAddress) raft.Future) error {
	if _, _, err := parseServerID(server); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go r.propagateCommitUntil(done)
	return r.callLibrary(func(inst *instance) raft.Future {
		return change(inst, raft.ServerID(server), raft.ServerAddress(server))
	})
}

// propagateCommitUntil appends an entry every propagateInterval until done is closed.
func (r *Raft) propagateCommitUntil(done <-chan struct{}) {
	ticker := time.NewTicker(propagateInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.PropagateCommit()
		case <-done:
			return
		}
	}
}

// Rank returns the position of this server among the voters, not counting those of excludedNode. It
// returns -1 if this server is not a voter. Voters that campaign for the same reason wait longer
// the higher their rank, so that they do not split the vote.
func (r *Raft) Rank(excludedNode string) int {
	voters := slices.DeleteFunc(slices.Clone(r.Voters()), func(server string) bool {
		return NodeOf(server) == excludedNode
	})
	return slices.Index(voters, r.options.ID)
}

// Campaign starts an election immediately. It is for a voter with evidence that its leader has
// crashed. The server sends itself the message of a leadership transfer. This skips the pre-vote,
// and other servers vote even if they still follow the leader, so wrong evidence costs a
// leadership, but the log remains safe. At most one campaign per two election timeouts is possible.
// It returns nil if this server is already candidate or leader.
func (r *Raft) Campaign() error { return r.CampaignIfTerm(r.Term()) }

// CampaignIfTerm is like Campaign, but starts the election only if the local term is still term. It
// returns ErrTooLate if the server has reached another term before the election starts.
func (r *Raft) CampaignIfTerm(term uint64) error {
	if r.Term() != term {
		return ErrTooLate
	}
	switch r.library().State() {
	case raft.Candidate, raft.Leader:
		return nil
	case raft.Shutdown:
		return translateError(raft.ErrRaftShutdown)
	case raft.Follower:
	}
	if r.Rank("") < 0 {
		return ErrNotVoter
	}
	if !r.campaignLimit.allow(time.Now()) {
		return ErrTooSoon
	}
	return r.runUntilStopped(func() error {
		id, addr := raft.ServerID(r.options.ID), raft.ServerAddress(r.options.ID)
		inst := r.current.Load()
		req := &raft.TimeoutNowRequest{RPCHeader: inst.header()}
		req.Addr = encodeCampaignTerm(term)
		err := inst.transport.TimeoutNow(id, addr, req, &raft.TimeoutNowResponse{})
		if err != nil && r.Term() != term {
			return ErrTooLate // a stream transports the error only as text
		}
		return err
	})
}

// Snapshot takes a snapshot immediately.
func (r *Raft) Snapshot() error {
	return r.callLibrary(func(inst *instance) raft.Future { return inst.Snapshot() })
}
