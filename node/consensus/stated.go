package consensus

import "github.com/hashicorp/raft"

// statedBy tells which term a request of Raft's states as its sender's. A pre-vote
// states one that it would be in.
func (r *Raft) statedBy(cmd any) {
	if r.o.Stated == nil {
		return
	}
	switch req := cmd.(type) {
	case *raft.AppendEntriesRequest:
		r.o.Stated(string(req.ID), req.Term)
	case *raft.RequestVoteRequest:
		r.o.Stated(string(req.ID), req.Term)
	case *raft.InstallSnapshotRequest:
		r.o.Stated(string(req.ID), req.Term)
	}
}

// stated tells which term a server stated in an answer.
func (t *transport) stated(server raft.ServerID, term uint64) {
	if t.told != nil {
		t.told(string(server), term)
	}
}
