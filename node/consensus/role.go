package consensus

import "github.com/hashicorp/raft"

// Candidate reports whether this server stands for election now.
func (r *Raft) Candidate() bool { return r.raft.State() == raft.Candidate }
