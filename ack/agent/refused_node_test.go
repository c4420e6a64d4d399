package agent_test

import (
	"testing"

	"shardway/ack"
	"shardway/ack/agent"
)

// A leader that refuses a voter is alive. A voter whose node id another process used reported
// a missed leader for seconds, so one vote less was needed to replace that leader.
func TestRefusingLeaderIsNotMissed(t *testing.T) {
	for name, c := range map[string]struct {
		answer ack.Answer
		waits  bool
	}{
		"another process": {ack.Answer{Term: 7, Refusal: ack.RefusedDuplicate, KnownBoot: 1, DuplicateAddr: "10.0.0.9:7947"}, false},
		"its lease":       {ack.Answer{Term: 7, Refusal: ack.RefusedDuplicate, KnownBoot: 1}, false},
		"a higher boot":   {ack.Answer{Term: 7, Refusal: ack.RefusedBoot, KnownBoot: 9}, false},
		"a former leader": {ack.Answer{Term: 6, Refusal: ack.RefusedDuplicate, KnownBoot: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := &cutting{}
			var last ack.Heartbeat
			a := agent.New(agent.Options{
				Node: "b", Server: "b/d", Boot: 1, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), Gate: g, RaftTerm: func() uint64 { return 7 },
				SendHeartbeat: func(hb ack.Heartbeat) { last = hb },
			}, 0)
			answer := func(ans ack.Answer) {
				a.HeartbeatNow()
				a.Poll(g.now, agent.Observation{State: ack.NewState(), Weight: 1})
				g.now += ms
				ans.Boot, ans.HeartbeatNumber = 1, last.Number
				a.HandleAnswer(g.now, ans)
			}
			answer(ack.Answer{Term: 7, Number: 1})
			answer(c.answer)
			if w := a.UnansweredHeartbeat(); w.LeaderTerm != 0 != c.waits {
				t.Errorf("it waits %+v, want that it waits: %v", w, c.waits)
			}
		})
	}
}
