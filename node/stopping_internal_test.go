package node

import (
	"context"
	"testing"
	"time"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/ack/election"
	"shardway/internal/clock"
)

// missed is a Raft server of which the leader is missed.
type missed struct{}

// Term implements election.Raft.
func (missed) Term() uint64 { return 7 }

// Voters implements election.Raft.
func (missed) Voters() []string { return []string{"a/d", "b/d", "c/d"} }

// Leader implements election.Raft.
func (missed) Leader() string { return "a/d" }

// LogEnd implements election.Raft.
func (missed) LogEnd() election.LogEnd { return election.LogEnd{Term: 7, Index: 20} }

// A stopping node does not campaign, and does not report to be a candidate, because the other
// voters would wait for it.
func TestStoppingNodeDoesNotCampaign(t *testing.T) {
	c := new(clock.Manual)
	c.Advance(time.Hour)
	n := &Node{self: "b", server: "b/d"}
	n.agent = &agent{self: "b", clock: c}
	n.agent.machine = ackagent.New(ackagent.Options{Node: "b", Server: "b/d", Boot: 1, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), RaftTerm: func() uint64 { return 7 }}, c.Precise())
	d := &leaderSuspicion{n: n, ctx: context.Background(), machine: election.New(election.Options{Server: n.server, Heartbeat: ack.DefaultPace().Heartbeat, Raft: missed{}}, c.Precise())}
	since, campaigns := c.Precise(), false
	for range 100 {
		c.Advance(10 * time.Millisecond)
		_, campaign := d.machine.Poll(c.Precise(), election.UnansweredHeartbeat{SentAt: since, LeaderTerm: 7})
		if campaigns = campaigns || campaign; campaigns {
			break
		}
		d.machine.ReportReceived(c.Precise(), "c/d", election.Report{LeaderTerm: 7, Log: missed{}.LogEnd(), CurrentTerm: 7})
	}
	if !campaigns || !d.machine.Report().Candidate {
		t.Fatal("the voter does not campaign")
	}
	n.stopping.Store(true)
	d.campaign(7) // of a node without Raft: anything but that it does not would end this test
	n.asks.Wait()
	if d.machine.Report().Candidate {
		t.Error("a stopping node reports to be a candidate")
	}
}
