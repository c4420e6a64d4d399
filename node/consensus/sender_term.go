package consensus

import "github.com/hashicorp/raft"

// senderTerm returns the current term of the sender of a request, or 0 if the request does not
// contain it. A pre-vote contains a term that the sender has not entered.
func senderTerm(cmd any) uint64 {
	switch req := cmd.(type) {
	case *raft.AppendEntriesRequest:
		return req.Term
	case *raft.RequestVoteRequest:
		return req.Term
	case *raft.InstallSnapshotRequest:
		return req.Term
	}
	return 0
}

// termLeader is a server that led in a term.
type termLeader struct {
	term   uint64
	server string
}

// recordLeader records the server at the other end of the stream as the leader of its term, if only leaders send
// such a request.
func (t *transport) recordLeader(server string, cmd any) {
	switch cmd.(type) {
	case *raft.AppendEntriesRequest, *raft.InstallSnapshotRequest:
	default:
		return
	}
	term, last := senderTerm(cmd), t.lastLeader.Load()
	if last == nil || last.term < term || last.term == term && last.server != server {
		t.lastLeader.Store(&termLeader{term, server})
	}
}

// reportTerm reports the term of the server at the other end of the stream.
func (t *transport) reportTerm(server raft.ServerID, term uint64) {
	if t.onTerm != nil {
		t.onTerm(string(server), term)
	}
}
