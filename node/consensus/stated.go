package consensus

import "github.com/hashicorp/raft"

// statedIn returns the term that a request of Raft's states as its sender's, zero if
// none. A pre-vote states one that it would be in.
func statedIn(cmd any) uint64 {
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

// stated tells which term a server stated: the one at the other end of the stream,
// whatever the message says.
func (t *transport) stated(server raft.ServerID, term uint64) {
	if t.told != nil {
		t.told(string(server), term)
	}
}
