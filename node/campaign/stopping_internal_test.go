package campaign

import (
	"context"
	"sync"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/election"
	"shardway/internal/clock"
)

// missed is a Raft server that misses the heartbeats of its leader.
type missed struct{}

// Term implements election.Raft.
func (missed) Term() uint64 { return 7 }

// Voters implements election.Raft.
func (missed) Voters() []string { return []string{"a/d", "b/d", "c/d"} }

// Leader implements election.Raft.
func (missed) Leader() string { return "a/d" }

// LogEnd implements election.Raft.
func (missed) LogEnd() election.LogEnd { return election.LogEnd{Term: 7, Index: 20} }

// testAgent is an agent that runs on the goroutine of the test.
type testAgent struct{ c clock.Clock }

// Call implements Agent.
func (testAgent) Call(_ context.Context, f func()) bool { f(); return true }

// BeginTurn implements Agent.
func (a testAgent) BeginTurn() time.Duration { return a.c.Precise() }

// Unanswered implements Agent.
func (testAgent) Unanswered() election.UnansweredHeartbeat { return election.UnansweredHeartbeat{} }

// A stopping node does not campaign, and does not report to be a candidate, because the other
// voters would wait for it.
func TestStoppingNodeDoesNotCampaign(t *testing.T) {
	c := new(clock.Manual)
	c.Advance(time.Hour)
	background := new(sync.WaitGroup)
	s := &Suspicion{
		options:  SuspicionOptions{Campaigner: &Campaigner{IsStopping: func() bool { return true }}, Agent: testAgent{c}, Background: background},
		ctx:      context.Background(),
		detector: election.New(election.Options{Server: "b/d", Heartbeat: ack.DefaultPace().Heartbeat, Raft: missed{}}, c.Precise()),
	}
	since, campaigns := c.Precise(), false
	for range 100 {
		c.Advance(10 * time.Millisecond)
		_, campaign := s.detector.Poll(c.Precise(), election.UnansweredHeartbeat{SentAt: since, LeaderTerm: 7})
		if campaigns = campaigns || campaign; campaigns {
			break
		}
		s.detector.RecordReport(c.Precise(), "c/d", election.Report{LeaderTerm: 7, Log: missed{}.LogEnd(), CurrentTerm: 7})
	}
	if !campaigns || !s.detector.Report().Candidate {
		t.Fatal("the voter does not campaign")
	}
	s.campaign(7) // the node has no Raft: if it campaigned, the test would panic
	background.Wait()
	if s.detector.Report().Candidate {
		t.Error("a stopping node reports to be a candidate")
	}
}
