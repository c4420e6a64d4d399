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

// reportTerm reports the term of the server at the other end of the stream.
func (t *transport) reportTerm(server raft.ServerID, term uint64) {
	if t.onTerm != nil {
		t.onTerm(string(server), term)
	}
}
