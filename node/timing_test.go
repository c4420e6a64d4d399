package node_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// rolling starts a, b and c with their apps. odd has another dead-after than the others, as during a rolling change of that flag.
func rolling(t *testing.T, odd string, deadAfter time.Duration, f func(s *storm)) {
	t.Helper()
	bubble(t, func(w *world) {
		s := newStorm(w, 1, ack.TakeoverTimeout)
		s.load = 0
		usual := w.tune
		w.tune = func(o *node.Options) {
			usual(o)
			o.Timing = ack.DefaultTiming()
			if o.Timing.Takeover = ack.TakeoverTimeout; strings.Contains(odd, o.Dir.Node()) {
				o.Timing.DeadAfter = deadAfter
			}
		}
		for _, n := range []string{"a", "b", "c"} {
			s.add(n, trait{weight: 1, rate: 1, expect: 1})
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		f(s)
	})
}

// cutOff starts a long request for a shard of p on p, cuts p off, and watches the others until long after they have taken that shard: none
// may admit a request for it while the first one runs.
func (s *storm) cutOff(p *process) {
	s.t.Helper()
	var mine shardmap.Shard
	for s.committed().Owner(mine) != shardmap.NodeID(p.name) {
		mine++
	}
	s.c.send(p, mine, http.MethodGet, time.Minute, nil)
	s.until(p.name+" runs it", func() bool { return s.witness.runsOf(p.name) == 1 })
	rest := []string{"client"}
	for _, n := range s.others(p) {
		rest = append(rest, n, n+".app")
	}
	s.net.Partition([]string{p.name, p.name + ".app"}, rest)
	began := time.Now()
	taken := func() bool {
		for _, n := range s.others(p) {
			if _, ok := s.all[n].node.Admits(mine); ok && s.witness.runsOf(p.name) > 0 {
				s.t.Fatalf("%s admits requests for shard %d %v after %s was cut off, which still runs one", n, mine, time.Since(began), p.name)
			}
		}
		return s.settled(s.others(p)...)
	}
	s.until("its shards are taken", taken)
	s.until("the request is cut", func() bool { return taken() && s.witness.runsOf(p.name) == 0 })
}

// runsOf returns the number of requests that run in the app of a node.
func (w *witness) runsOf(node string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.h.Runs {
		if r.App == node && r.End == 0 {
			n++
		}
	}
	return n
}

// Once, each node aborted its requests by its own flags, and the leader took shards by its own. With takeover timeout, a node with a
// dead-after of 5 s among others with 2.5 s was cut off. It ran a request until 4.25 s after its last heartbeat, a second and a half in
// parallel with the next owner.
func TestNodeWithALongerDeadAfterStopsBeforeTheNextOwner(t *testing.T) {
	rolling(t, "c", 5*time.Second, func(s *storm) { s.cutOff(s.all["c"]) })
}

// The same happened with the leader's flags: a leader took shards after a second, from a node that aborted its requests after two.
func TestLeaderWithAShorterDeadAfterTakesNothingEarlier(t *testing.T) {
	rolling(t, "bc", 1200*time.Millisecond, func(s *storm) {
		a := s.all["a"]
		if err := a.node.API().Do(s.t.Context(), api.Action{Verb: api.StepDown}); err != nil {
			s.t.Fatalf("Do(step-down) = %v, want nil", err)
		}
		s.until("another leads", func() bool { l := s.leader(); return l != nil && l != a })
		s.untilSettled("a", "b", "c")
		s.cutOff(a)
	})
}
