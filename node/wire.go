package node

import "shardway/ack/election"

// wireMissing is an election.Report as voters send it to each other. In is Report.CurrentTerm, and Stands
// is Report.Candidate.
type wireMissing struct {
	Term     uint64 `json:"term,omitempty"`
	LogTerm  uint64 `json:"log_term,omitempty"`
	LogIndex uint64 `json:"log_index,omitempty"`
	Stands   bool   `json:"stands,omitempty"`
	In       uint64 `json:"in,omitempty"`
}

// wireMissingOf converts a report for another voter.
func wireMissingOf(m election.Report) wireMissing {
	return wireMissing{Term: m.LeaderTerm, LogTerm: m.Log.Term, LogIndex: m.Log.Index, Stands: m.Candidate, In: m.CurrentTerm}
}

// missing converts a wireMissing back to a report.
func (w wireMissing) missing() election.Report {
	return election.Report{LeaderTerm: w.Term, Log: election.LogEnd{Term: w.LogTerm, Index: w.LogIndex}, Candidate: w.Stands, CurrentTerm: w.In}
}
