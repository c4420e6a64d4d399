package campaign

import "shardway/ack/election"

// WireReport is an election.Report as voters send it to each other. In is Report.CurrentTerm, and Stands
// is Report.Candidate.
type WireReport struct {
	Term     uint64 `json:"term,omitempty"`
	LogTerm  uint64 `json:"log_term,omitempty"`
	LogIndex uint64 `json:"log_index,omitempty"`
	Stands   bool   `json:"stands,omitempty"`
	In       uint64 `json:"in,omitempty"`
}

// WireReportOf converts a report for another voter.
func WireReportOf(r election.Report) WireReport {
	return WireReport{Term: r.LeaderTerm, LogTerm: r.Log.Term, LogIndex: r.Log.Index, Stands: r.Candidate, In: r.CurrentTerm}
}

// Report converts a WireReport back to a report.
func (w WireReport) Report() election.Report {
	return election.Report{LeaderTerm: w.Term, Log: election.LogEnd{Term: w.LogTerm, Index: w.LogIndex}, Candidate: w.Stands, CurrentTerm: w.In}
}
