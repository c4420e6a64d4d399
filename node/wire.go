package node

import (
	"fmt"
	"time"

	"shardway/ack/election"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// wireMember is a leader.MemberView as a leader sends it to other nodes.
type wireMember struct {
	Node string `json:"node"`
	// Heartbeat is the last heartbeat, as package ack encodes it. Empty means that the leader has received
	// none in this term.
	Heartbeat []byte `json:"heartbeat,omitempty"`
	From      string `json:"from,omitempty"`
	// HeardAgo is the time since the last heartbeat in nanoseconds. Negative means that there was none.
	HeardAgo time.Duration `json:"heard_ago_ns"`
	Silent   bool          `json:"silent,omitempty"`
	Echoes   bool          `json:"echoes,omitempty"` // MemberView.LinkWorks
	Crashed  bool          `json:"crashed,omitempty"`
	Eligible bool          `json:"eligible,omitempty"`
	Kept     bool          `json:"kept,omitempty"`    // MemberView.KeptUnhealthy
	Held     time.Duration `json:"held_ns,omitempty"` // MemberView.HoldTime
	Absent   bool          `json:"absent,omitempty"`  // MemberView.Restarting
	Staged   bool          `json:"staged,omitempty"`
	Over     bool          `json:"over,omitempty"` // MemberView.ProcessGone
}

// wireMembers converts the leader's view of the nodes for other nodes.
func wireMembers(views []leader.MemberView) ([]wireMember, error) {
	if views == nil {
		return nil, nil // nil means that the leader loop did not respond
	}
	members := make([]wireMember, len(views))
	for i, v := range views {
		members[i] = wireMember{
			Node: string(v.Node), From: v.From, HeardAgo: v.SinceHeartbeat, Silent: v.Silent, Echoes: v.LinkWorks, Crashed: v.Crashed,
			Eligible: v.Eligible, Kept: v.KeptUnhealthy, Held: v.HoldTime, Absent: v.Restarting, Staged: v.Staged, Over: v.ProcessGone,
		}
		if v.Heartbeat.Boot == 0 {
			continue
		}
		var err error
		if members[i].Heartbeat, err = v.Heartbeat.MarshalBinary(); err != nil {
			return nil, fmt.Errorf("node: heartbeat of %q: %w", v.Node, err)
		}
	}
	return members, nil
}

// memberViews converts the result of wireMembers back.
func memberViews(members []wireMember) ([]leader.MemberView, error) {
	if members == nil {
		return nil, nil
	}
	views := make([]leader.MemberView, len(members))
	for i, m := range members {
		views[i] = leader.MemberView{
			Node: shardmap.NodeID(m.Node), From: m.From, SinceHeartbeat: m.HeardAgo, Silent: m.Silent, LinkWorks: m.Echoes, Crashed: m.Crashed,
			Eligible: m.Eligible, KeptUnhealthy: m.Kept, HoldTime: m.Held, Restarting: m.Absent, Staged: m.Staged, ProcessGone: m.Over,
		}
		if len(m.Heartbeat) == 0 {
			continue
		}
		if err := views[i].Heartbeat.UnmarshalBinary(m.Heartbeat); err != nil {
			return nil, fmt.Errorf("node: heartbeat of %q: %w", m.Node, err)
		}
	}
	return views, nil
}

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
