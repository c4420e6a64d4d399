package consensus

import (
	"errors"
	"slices"
	"strconv"

	"github.com/hashicorp/raft"
)

// look is shown every request before Raft, but heartbeats. It takes it, or returns
// it, perhaps changed, for Raft.
func (r *Raft) look(t *transport, rpc raft.RPC) (out raft.RPC, taken bool) {
	c := r.cur.Load()
	if c == nil || c.trans != t {
		return rpc, false // Raft is only just beginning.
	}
	switch req := rpc.Command.(type) {
	case *raft.InstallSnapshotRequest:
		return r.installing(c, rpc, req), false
	case *raft.AppendEntriesRequest:
		r.matching(c, req)
	case *raft.TimeoutNowRequest:
		if r.late(c, rpc, req) {
			return rpc, true
		}
	}
	return rpc, r.abstains(c, rpc) || r.ballot(c, rpc)
}

// errStale answers who wants this server to stand for election.
var errStale = errors.New("consensus: a snapshot is being installed")

// abstains keeps a server out of elections while its log may contradict the snapshot
// that it has just got, see install.go.
func (r *Raft) abstains(c *core, rpc raft.RPC) (taken bool) {
	if c.stale.Load() == 0 {
		return false
	}
	switch rpc.Command.(type) {
	case *raft.RequestPreVoteRequest:
		rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: r.header(), Term: c.CurrentTerm()}, nil)
	case *raft.RequestVoteRequest:
		rpc.Respond(&raft.RequestVoteResponse{RPCHeader: r.header(), Term: c.CurrentTerm()}, nil)
	case *raft.TimeoutNowRequest:
		rpc.Respond(&raft.TimeoutNowResponse{}, errStale)
	default:
		return false
	}
	return true
}

// inTerm is the address of a server that stands against the leader of a term. The library
// reads none.
func inTerm(term uint64) []byte { return strconv.AppendUint(nil, term, 10) }

// late refuses to have this server stand, as it wants to itself, in another term than it
// meant. Raft's loop may still write the vote for another candidate, which a slow disk takes
// a while for, and until then its term is the old one: that vote would make a leader, and
// this one depose it at once. So the loop is asked something first that changes nothing.
// No other request comes to it meanwhile.
func (r *Raft) late(c *core, rpc raft.RPC, req *raft.TimeoutNowRequest) bool {
	term, err := strconv.ParseUint(string(req.Addr), 10, 64)
	if err != nil || string(req.ID) != r.o.ID {
		return false // a leader hands over
	}
	c.trans.quiet()
	if c.CurrentTerm() == term {
		return false
	}
	rpc.Respond(nil, ErrTooLate)
	return true
}

// ballot mends the library's way to vote. It refuses a candidate that is no
// voter in the configuration of the voter's own log. But that log may lack the
// entry that made it one, and then nobody may be able to win any more: of three
// voters a, b and c, where b missed that c was promoted, b and c cannot replace
// a. In Raft a vote depends on terms and logs alone (Ongaro's thesis, 4.2.2).
//
// So, for a candidate whose log is newer than ours while we know no leader: a
// pre-vote, which changes nothing here, is granted; and a vote is asked without
// the candidate's id, which the library takes for an old version's and judges by
// term and log only. A server that was removed finds those who removed it with a
// leader, or with a newer log.
func (r *Raft) ballot(c *core, rpc raft.RPC) (taken bool) {
	switch req := rpc.Command.(type) {
	case *raft.RequestPreVoteRequest:
		if req.Term < c.CurrentTerm() || !r.unknownVoter(c, req.ID, req.LastLogTerm, req.LastLogIndex) {
			return false
		}
		rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: r.header(), Term: req.Term, Granted: true}, nil)
		return true
	case *raft.RequestVoteRequest:
		if r.unknownVoter(c, req.ID, req.LastLogTerm, req.LastLogIndex) {
			req.ID = nil
		}
	}
	return false
}

// unknownVoter reports whether the server is no voter as far as we know, and has
// a newer log than we while we know no leader.
func (r *Raft) unknownVoter(c *core, id []byte, term, index uint64) bool {
	all := r.Configuration()
	if len(all) == 0 || slices.Contains(all, Server{ID: string(id), Voter: true}) || r.Leader() != "" {
		return false
	}
	ourTerm, ourIndex := lastEntry(c.Stats())
	return term > ourTerm || term == ourTerm && index > ourIndex
}

// lastEntry returns the term and index of the last entry in the log, or of the
// snapshot that took its place. The library tells the terms as text only; what
// cannot be read is zero, and then Raft itself still judges the vote.
func lastEntry(stats map[string]string) (term, index uint64) {
	term, index = number(stats, "last_log_term"), number(stats, "last_log_index")
	if snap := number(stats, "last_snapshot_index"); snap > index {
		term, index = number(stats, "last_snapshot_term"), snap
	}
	return term, index
}

// number reads one of the library's figures.
func number(stats map[string]string, key string) uint64 {
	n, err := strconv.ParseUint(stats[key], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// header is that of every message of this server.
func (r *Raft) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(r.o.ID), Addr: []byte(r.o.ID)}
}
