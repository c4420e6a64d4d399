package consensus

import (
	"errors"
	"slices"
	"strconv"

	"github.com/hashicorp/raft"
)

// intercept receives every request except heartbeats before the Raft library does. It either responds to the
// request (isAnswered), or returns the request for the Raft library, possibly modified.
func (inst *instance) intercept(rpc raft.RPC) (forwarded raft.RPC, isAnswered bool) {
	if !inst.isCurrent() {
		return rpc, false
	}
	switch req := rpc.Command.(type) {
	case *raft.InstallSnapshotRequest:
		return inst.reconcileAfterInstall(rpc, req), false
	case *raft.AppendEntriesRequest:
		inst.correctPrevEntry(req)
	case *raft.TimeoutNowRequest:
		if inst.rejectStaleCampaign(rpc, req) {
			return rpc, true
		}
	}
	return rpc, inst.rejectElectionRequest(rpc) || inst.correctVote(rpc)
}

// errInstallingSnapshot rejects a request to start an election.
var errInstallingSnapshot = errors.New("consensus: a snapshot is being installed")

// rejectElectionRequest rejects election requests while this server's log may contradict the snapshot that it has
// just received; see install.go. It returns false for other requests.
func (inst *instance) rejectElectionRequest(rpc raft.RPC) (isRejected bool) {
	if inst.pendingSnapshots.Load() == 0 {
		return false
	}
	switch rpc.Command.(type) {
	case *raft.RequestPreVoteRequest:
		rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: inst.header(), Term: inst.CurrentTerm()}, nil)
	case *raft.RequestVoteRequest:
		rpc.Respond(&raft.RequestVoteResponse{RPCHeader: inst.header(), Term: inst.CurrentTerm()}, nil)
	case *raft.TimeoutNowRequest:
		rpc.Respond(&raft.TimeoutNowResponse{}, errInstallingSnapshot)
	default:
		return false
	}
	return true
}

// encodeCampaignTerm encodes the term of the leader that this server campaigns against. It is sent as an address,
// which the Raft library ignores in this message.
func encodeCampaignTerm(term uint64) []byte { return strconv.AppendUint(nil, term, 10) }

// rejectStaleCampaign rejects a campaign of this server that started in an earlier term. On a slow disk, the main
// loop of the Raft library may still be writing the vote for another candidate, and has the old term until then.
// That vote elects a leader, which the campaign would immediately depose. This function therefore first sends a
// no-op request through the loop, which receives no other request in the meantime.
func (inst *instance) rejectStaleCampaign(rpc raft.RPC, req *raft.TimeoutNowRequest) (isRejected bool) {
	term, err := strconv.ParseUint(string(req.Addr), 10, 64)
	if err != nil || string(req.ID) != inst.options.ID {
		return false // a leader transfers its leadership
	}
	inst.transport.drainLibraryLoop()
	if inst.CurrentTerm() == term {
		return false
	}
	rpc.Respond(nil, ErrTooLate)
	return true
}

// correctVote fixes how the Raft library votes. The library rejects a candidate that is not a voter in the
// configuration of the voter's log. But this log may lack the entry that made the candidate a voter, in which case
// possibly no server can win an election. For example, if b has missed the promotion of c among three voters a, b
// and c, then b and c cannot replace a. In Raft, a vote depends only on terms and logs (Ongaro's thesis, 4.2.2).
//
// The fix applies to a candidate with a newer log while this server knows no leader. A pre-vote, which changes
// nothing on this server, is granted. A vote is passed on without the candidate's ID; the Raft library then treats
// it like a request of an older version and decides only by term and log. A removed server cannot win, because the
// other servers have a leader or a newer log.
func (inst *instance) correctVote(rpc raft.RPC) (isAnswered bool) {
	switch req := rpc.Command.(type) {
	case *raft.RequestPreVoteRequest:
		if req.Term < inst.CurrentTerm() || !inst.isUnlistedCandidate(req.ID, req.LastLogTerm, req.LastLogIndex) {
			return false
		}
		rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: inst.header(), Term: req.Term, Granted: true}, nil)
		return true
	case *raft.RequestVoteRequest:
		if inst.isUnlistedCandidate(req.ID, req.LastLogTerm, req.LastLogIndex) {
			req.ID = nil
		}
	}
	return false
}

// isUnlistedCandidate reports whether a candidate is not a voter in the configuration of this server, but
// has a newer log, while this server knows no leader. lastTerm and lastIndex are those of the last entry of
// the candidate.
func (inst *instance) isUnlistedCandidate(id []byte, lastTerm, lastIndex uint64) bool {
	servers := inst.servers()
	if len(servers) == 0 || slices.Contains(servers, Server{ID: string(id), Voter: true}) || inst.leader() != "" {
		return false
	}
	ownLastTerm, ownLastIndex := lastEntry(inst.Stats())
	return lastTerm > ownLastTerm || lastTerm == ownLastTerm && lastIndex > ownLastIndex
}

// lastEntry returns the term and the index of the last entry in the log, or of the snapshot that replaces it. The
// Raft library provides the terms only as text. An invalid number becomes zero, which leaves the decision to the
// library.
func lastEntry(stats map[string]string) (term, index uint64) {
	term, index = statUint(stats, "last_log_term"), statUint(stats, "last_log_index")
	if snapshotIndex := statUint(stats, "last_snapshot_index"); snapshotIndex > index {
		term, index = statUint(stats, "last_snapshot_term"), snapshotIndex
	}
	return term, index
}

// statUint parses a number in the statistics of the Raft library. It returns 0 for an invalid number.
func statUint(stats map[string]string, key string) uint64 {
	n, err := strconv.ParseUint(stats[key], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
