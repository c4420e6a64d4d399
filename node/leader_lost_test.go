package node_test

import (
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/event"
	"shardway/node/eventlog"
)

// lostReason waits until p has reported that the node lost its leadership, after its first n events, and returns the reason.
func (p *process) lostReason(n int, leader string) string {
	p.w.t.Helper()
	reason := ""
	p.w.until(p.name+" reports that "+leader+" does not lead any more", func() bool {
		_, all := p.events(0)
		for _, e := range all[n:] {
			if e.Kind == event.LeaderLost && e.Node == leader {
				reason = e.Reason
				return true
			}
		}
		return false
	})
	return reason
}

// The event leader-lost has the reason that its reporter knows. The former leader distinguishes a loss of the quorum from
// a transfer; the other nodes distinguish a stop from a failure.
func TestLeaderLostHasAReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		end          func(w *world, leader *process) (heal func())
		here, others string // want at the former leader ("" means that it has ended), and at the other nodes
	}{
		{"step-down", func(w *world, leader *process) func() {
			w.does(leader, api.Action{Verb: api.StepDown})
			return func() {}
		}, eventlog.LostSteppedDown, eventlog.LostHigherTerm},
		{"SIGKILL", func(_ *world, leader *process) func() { leader.kill(); return func() {} }, "", eventlog.LostUnreachable},
		{"SIGTERM", func(_ *world, leader *process) func() { leader.stop(); return func() {} }, "", eventlog.LostShutdown},
		{"partition", func(w *world, leader *process) func() {
			for _, other := range w.others(leader) {
				w.net.Cut(other, leader.name)
				w.net.Cut(leader.name, other)
			}
			return w.net.Heal
		}, eventlog.LostQuorum, eventlog.LostUnreachable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			three(t, func(w *world) {
				w.untilVoters(3)
				time.Sleep(time.Second)
				leader := w.leader()
				before := map[string]int{}
				for _, p := range w.running() {
					_, all := p.events(0)
					before[p.name] = len(all)
				}
				rest := w.others(leader)
				heal := test.end(w, leader)
				var reasons []string
				for _, name := range rest {
					reasons = append(reasons, w.all[name].lostReason(before[name], leader.name))
				}
				// The node that votes for another candidate may learn of the election first.
				if all := strings.Join(reasons, " "); !strings.Contains(all, test.others) {
					w.t.Errorf("reasons at %v: %v, want %s", rest, reasons, test.others)
				}
				if test.here != "" {
					if got := leader.lostReason(before[leader.name], leader.name); got != test.here {
						w.t.Errorf("reason at the former leader: %q, want %q", got, test.here)
					}
				}
				heal()
			})
		})
	}
}

// The status of each node shows since when the leader leads, and that its lease is renewed. Only the metric of the leader
// is above zero.
func TestLeadershipHasAStartAndALease(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		leader := w.leader()
		elected := time.Now()
		w.does(leader, api.Action{Verb: api.StepDown})
		w.until("another node leads", func() bool { l := w.leader(); return l != nil && l != leader })
		w.untilSettled("a", "b", "c")
		time.Sleep(3 * time.Second)
		for _, p := range w.running() {
			st := p.node.API().Status()
			if st.LeaderSince == nil || st.LeaderLeaseMS == nil {
				w.t.Fatalf("%s: no state of the leadership in the status", p.name)
			}
			if age := st.LeaderSince.Sub(elected); age < -50*time.Millisecond || age > 2*time.Second {
				w.t.Errorf("%s: leader since %v, %v after the step-down", p.name, st.LeaderSince, age)
			}
			if *st.LeaderLeaseMS <= 0 || *st.LeaderLeaseMS > 500 {
				w.t.Errorf("%s: lease of the leader for %d ms", p.name, *st.LeaderLeaseMS)
			}
			lease := value(p.gathered(), "shardway_leader_lease_seconds", "")
			if leads := p.node.Leads(); leads != (lease > 0) || lease > 0.5 {
				w.t.Errorf("%s leads: %v, shardway_leader_lease_seconds %v", p.name, leads, lease)
			}
		}
	})
}
