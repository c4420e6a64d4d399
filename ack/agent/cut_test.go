package agent_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// cutting is the gate of a node that always runs a request. It records when the request is cut
// for the lease.
type cutting struct {
	now time.Duration
	at  []time.Duration
}

func (c *cutting) PublishLease(time.Duration) bool            { return false }
func (c *cutting) PublishRouting(ack.Routing)                 {}
func (c *cutting) CountRunning(func(shardmap.Shard) bool) int { return 1 }
func (c *cutting) AbortRequests(why agent.AbortReason, _ func(shardmap.Shard) bool) {
	if why == agent.AbortLeaseLost {
		c.at = append(c.at, c.now)
	}
}

// The own flags, the log, or an earlier answer may allow a node to run requests longer than
// the timing of the cluster. The cut deadline in the answer that granted the lease decides.
func TestRequestsAreCutAtTheDeadlineOfTheAnswer(t *testing.T) {
	long := ack.DefaultTiming()
	long.DeadAfter = time.Minute
	for name, c := range map[string]struct {
		cuts []time.Duration // of the answers to a heartbeat each
		want time.Duration   // after the last of them
	}{
		"at the end of the lease":          {[]time.Duration{500 * ms}, 500 * ms},
		"before the flags would":           {[]time.Duration{700 * ms}, 700 * ms},
		"before an earlier answer would":   {[]time.Duration{9 * time.Second, 800 * ms}, 800 * ms},
		"later than the earlier one would": {[]time.Duration{600 * ms, 2 * time.Second}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := &cutting{}
			var last ack.Heartbeat
			var sent time.Duration
			a := agent.New(agent.Options{
				Node: "b", Server: "b/d", Boot: 1, Pace: ack.DefaultPace(), Timing: long, Gate: g, RaftTerm: func() uint64 { return 1 },
				SendHeartbeat: func(hb ack.Heartbeat) { last, sent = hb, g.now },
			}, 0)
			look := func() { a.Poll(g.now, agent.Observation{State: ack.NewState(), Weight: 1}) }
			granted := time.Duration(0)
			for i, cut := range c.cuts {
				a.HeartbeatNow()
				look()
				granted = sent
				a.HandleAnswer(g.now, ack.Answer{Term: 1, Number: uint64(i + 1), Boot: 1, HeartbeatNumber: last.Number, ServeFor: 500 * ms, AbortAfter: cut, LeaseDuration: 500 * ms})
				g.now += 10 * ms
			}
			for g.now <= granted+10*time.Second {
				look()
				g.now += 10 * ms
			}
			if len(g.at) != 1 || g.at[0] != granted+c.want {
				t.Errorf("cut at %v, want once, %v", g.at, granted+c.want)
			}
		})
	}
}
