package leaderloop

import (
	"fmt"
	"time"

	"shardway/ack/leader"
	"shardway/shardmap"
)

// WireMember is a leader.MemberView as a leader sends it to other nodes. The names in JSON are part of the protocol
// between nodes of different versions, so they stay when a field is renamed.
type WireMember struct {
	Node string `json:"node"`
	// Heartbeat is the last heartbeat, as package ack encodes it. It is empty if the leader has received none in
	// this term.
	Heartbeat  []byte `json:"heartbeat,omitempty"`
	RemoteAddr string `json:"from,omitempty"`
	// SinceHeartbeat is the time since the last heartbeat in nanoseconds. It is negative if there was none.
	SinceHeartbeat time.Duration `json:"heard_ago_ns"`
	Silent         bool          `json:"silent,omitempty"`
	LinkWorks      bool          `json:"echoes,omitempty"` // MemberView.LinkWorks
	Crashed        bool          `json:"crashed,omitempty"`
	Eligible       bool          `json:"eligible,omitempty"`
	KeptUnhealthy  bool          `json:"kept,omitempty"`    // MemberView.KeptUnhealthy
	HoldTime       time.Duration `json:"held_ns,omitempty"` // MemberView.HoldTime
	Restarting     bool          `json:"absent,omitempty"`  // MemberView.Restarting
	DefersMoves    bool          `json:"staged,omitempty"`  // MemberView.DefersMoves
	ProcessGone    bool          `json:"over,omitempty"`    // MemberView.ProcessGone
	// Unreachable and Reporters are those of MemberView.
	Unreachable bool              `json:"unreachable,omitempty"`
	Reporters   []shardmap.NodeID `json:"reporters,omitempty"`
}

// WireMembers encodes the leader's view of the nodes, so that other nodes can respond to requests for it.
func WireMembers(views []leader.MemberView) ([]WireMember, error) {
	if views == nil {
		return nil, nil // nil means that the leader loop did not respond
	}
	members := make([]WireMember, len(views))
	for i, view := range views {
		members[i] = WireMember{
			Node: string(view.Node), RemoteAddr: view.From, SinceHeartbeat: view.SinceHeartbeat, Silent: view.Silent, LinkWorks: view.LinkWorks, Crashed: view.Crashed,
			Eligible: view.Eligible, KeptUnhealthy: view.KeptUnhealthy, HoldTime: view.HoldTime, Restarting: view.Restarting, DefersMoves: view.DefersMoves, ProcessGone: view.ProcessGone,
			Unreachable: view.Unreachable, Reporters: view.Reporters,
		}
		if view.Heartbeat.Boot == 0 {
			continue
		}
		var err error
		if members[i].Heartbeat, err = view.Heartbeat.MarshalBinary(); err != nil {
			return nil, fmt.Errorf("leaderloop: heartbeat of %q: %w", view.Node, err)
		}
	}
	return members, nil
}

// MemberViews decodes the result of WireMembers.
func MemberViews(members []WireMember) ([]leader.MemberView, error) {
	if members == nil {
		return nil, nil
	}
	views := make([]leader.MemberView, len(members))
	for i, member := range members {
		views[i] = leader.MemberView{
			Node: shardmap.NodeID(member.Node), From: member.RemoteAddr, SinceHeartbeat: member.SinceHeartbeat, Silent: member.Silent, LinkWorks: member.LinkWorks, Crashed: member.Crashed,
			Eligible: member.Eligible, KeptUnhealthy: member.KeptUnhealthy, HoldTime: member.HoldTime, Restarting: member.Restarting, DefersMoves: member.DefersMoves, ProcessGone: member.ProcessGone,
			Unreachable: member.Unreachable, Reporters: member.Reporters,
		}
		if len(member.Heartbeat) == 0 {
			continue
		}
		if err := views[i].Heartbeat.UnmarshalBinary(member.Heartbeat); err != nil {
			return nil, fmt.Errorf("leaderloop: heartbeat of %q: %w", member.Node, err)
		}
	}
	return views, nil
}
