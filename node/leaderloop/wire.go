package leaderloop

import (
	"fmt"
	"time"

	"shardway/ack/leader"
	"shardway/shardmap"
)

// WireMember is an leader.MemberView as a leader sends it to other nodes.
type WireMember struct {
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

// WireMembers converts the leader's view of the nodes for other nodes.
func WireMembers(views []leader.MemberView) ([]WireMember, error) {
	if views == nil {
		return nil, nil // nil means that the leader loop did not respond
	}
	members := make([]WireMember, len(views))
	for i, v := range views {
		members[i] = WireMember{
			Node: string(v.Node), From: v.From, HeardAgo: v.SinceHeartbeat, Silent: v.Silent, Echoes: v.LinkWorks, Crashed: v.Crashed,
			Eligible: v.Eligible, Kept: v.KeptUnhealthy, Held: v.HoldTime, Absent: v.Restarting, Staged: v.DefersMoves, Over: v.ProcessGone,
		}
		if v.Heartbeat.Boot == 0 {
			continue
		}
		var err error
		if members[i].Heartbeat, err = v.Heartbeat.MarshalBinary(); err != nil {
			return nil, fmt.Errorf("leaderloop: heartbeat of %q: %w", v.Node, err)
		}
	}
	return members, nil
}

// MemberViews converts the result of WireMembers back.
func MemberViews(members []WireMember) ([]leader.MemberView, error) {
	if members == nil {
		return nil, nil
	}
	views := make([]leader.MemberView, len(members))
	for i, m := range members {
		views[i] = leader.MemberView{
			Node: shardmap.NodeID(m.Node), From: m.From, SinceHeartbeat: m.HeardAgo, Silent: m.Silent, LinkWorks: m.Echoes, Crashed: m.Crashed,
			Eligible: m.Eligible, KeptUnhealthy: m.Kept, HoldTime: m.Held, Restarting: m.Absent, DefersMoves: m.Staged, ProcessGone: m.Over,
		}
		if len(m.Heartbeat) == 0 {
			continue
		}
		if err := views[i].Heartbeat.UnmarshalBinary(m.Heartbeat); err != nil {
			return nil, fmt.Errorf("leaderloop: heartbeat of %q: %w", m.Node, err)
		}
	}
	return views, nil
}
