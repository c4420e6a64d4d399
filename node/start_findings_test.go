package node_test

import (
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/event"
)

// A starting node reads a log that may be behind. A cordon that was taken back while it was stopped is no finding.
func TestOldLogGivesNoFindings(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		other := w.all[w.others(p)[0]]
		w.asks(other, api.Action{Verb: api.Cordon, Node: other.name})
		w.asks(other, api.Action{Verb: api.Pause, For: "1h"})
		w.untilFindingsAre(p, string(diagnosis.Paused))
		w.untilFindingsAre(p, string(diagnosis.Cordoned))
		if err := p.node.TakeSnapshot(); err != nil {
			w.t.Fatal(err)
		}
		p.kill()
		w.untilSettled(w.others(p)...)
		w.net.Isolate(p.name)
		w.asks(other, api.Action{Verb: api.Uncordon, Node: other.name})
		w.asks(other, api.Action{Verb: api.Resume})
		p.restart()
		time.Sleep(3 * time.Second)
		w.net.Heal()
		w.untilSettled("a", "b", "c")
		time.Sleep(5 * time.Second)
		for _, e := range allEvents(p) {
			if e.Kind == event.FindingRaised && (e.Finding.Code == diagnosis.Paused || e.Finding.Code == diagnosis.Cordoned) {
				w.t.Errorf("a finding of before: %v", e.Finding)
			}
		}
		w.asks(other, api.Action{Verb: api.Cordon, Node: other.name})
		w.untilFindingsAre(p, string(diagnosis.Cordoned))
	})
}

// The state and the numbers of a status are consistent at each moment of a cold start.
func TestStatusAgreesWithItselfAtAColdStart(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		operational := 0
		for operational < 5000 {
			for _, p := range w.running() {
				if !p.started() {
					continue
				}
				st := p.node.API().Status()
				if st.State != "operational" && st.State != "rebalancing" {
					continue
				}
				operational++
				if st.Shards.Unavailable > 0 {
					w.t.Fatalf("node %s is %s, and %d shards are unavailable", p.name, st.State, st.Shards.Unavailable)
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// A map change has one reason, in the events and in the metric. This includes the first map, and the first round of a leader, which moves
// nothing.
func TestEachMapChangeHasOneReason(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		first := w.leader()
		w.asks(first, api.Action{Verb: api.StepDown})
		w.until("another node leads", func() bool { l := w.leader(); return l != nil && l != first })
		w.until("it has confirmed all nodes", func() bool { return value(w.leader().gathered(), "shardway_map_changes_total", "new-leader") > 0 })
		time.Sleep(time.Second)
		for _, x := range []struct {
			p      *process
			reason string
		}{{first, "join"}, {w.leader(), "new-leader"}} {
			told := 0
			isFirst := func(e event.Event) bool { return e.Kind == event.MapProposed }
			if all := allEvents(x.p); all[slices.IndexFunc(all, isFirst)].Reason != "join" {
				w.t.Errorf("node %s: the first map has another reason than join", x.p.name)
			}
			if moves := x.p.node.Moves(0); moves[0].Reason != "join" {
				w.t.Errorf("node %s: the first owner of shard 0 has the reason %q, want join", x.p.name, moves[0].Reason)
			}
			for _, e := range allEvents(x.p) {
				if e.Kind == event.MapProposed && e.Reason == x.reason {
					told++
				}
			}
			if got := value(x.p.gathered(), "shardway_map_changes_total", x.reason); told == 0 || int(got) != told {
				w.t.Errorf("node %s told of %d changes because of %q, and shardway_map_changes_total counts %v", x.p.name, told, x.reason, got)
			}
		}
	})
}

// allEvents returns all events of a node.
func allEvents(p *process) []event.Event {
	_, all := p.events(0)
	return all
}
