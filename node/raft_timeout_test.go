package node_test

import (
	"testing"
	"time"

	"shardway/internal/simnet"
	"shardway/node"
)

// termsOverLongLinks starts three nodes, makes each message take 400 ms, and returns how many elections take place within
// the next minute.
func termsOverLongLinks(t *testing.T, raftTimeout time.Duration) (elections uint64) {
	t.Helper()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.RaftTimeout = raftTimeout
			o.Pace.Heartbeat, o.Timing.Lease, o.Timing.DeadAfter = 500*time.Millisecond, 4*time.Second, 20*time.Second
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		term := func() (highest uint64) {
			for _, p := range w.running() {
				highest = max(highest, p.node.API().Status().Term)
			}
			return highest
		}
		before := term()
		w.links(simnet.Link{Latency: 400 * time.Millisecond})
		for range 60 {
			time.Sleep(time.Second)
			w.check()
		}
		w.links(simnet.Link{Latency: 200 * time.Microsecond})
		elections = term() - before
		w.untilSettled("a", "b", "c")
	})
	return elections
}

// A voter waits for RaftTimeout before it starts an election: with a longer one, nodes that are far apart keep their
// leader, and with the default they do not.
func TestLongRaftTimeoutKeepsTheLeaderOfDistantNodes(t *testing.T) {
	t.Parallel()
	if elections := termsOverLongLinks(t, 0); elections == 0 {
		t.Error("no election with the default: the links are too fast for this test")
	}
	if elections := termsOverLongLinks(t, 4*time.Second); elections != 0 {
		t.Errorf("%d elections within a minute with a long RaftTimeout, want none", elections)
	}
}
