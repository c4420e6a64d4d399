package node_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/event"
	"shardway/shardmap"
)

// events returns the events of the node after the first n of its process, as lines such as "node-failed b (reason)", and their number.
func (p *process) events(n int) (lines []string, all []event.Event) {
	p.w.t.Helper()
	c, err := p.node.Events().Read("")
	if err != nil {
		p.w.t.Fatal(err)
	}
	all, _ = c.Next(1 << 20)
	for _, e := range all[n:] {
		lines = append(lines, strings.Join(strings.Fields(e.Kind.String()+" "+e.Node+" "+e.Reason), " "))
	}
	return lines, all
}

// expectEvents waits until the node has reported the events want, in that order, after its first n events.
func (p *process) expectEvents(n int, want ...string) {
	p.w.t.Helper()
	left := want
	p.w.until(p.name+" tells "+strings.Join(want, ", "), func() bool {
		lines, _ := p.events(n)
		left = want
		for _, l := range lines {
			if len(left) > 0 && l == left[0] {
				left = left[1:]
			}
		}
		return len(left) == 0
	})
	if len(left) > 0 {
		lines, _ := p.events(n)
		p.w.t.Errorf("%s told %q, want %q among it", p.name, lines, want)
	}
}

// The events of one node describe the whole cluster: which node joined, left or failed and why, which node led, and each map with its moves
// and their duration.
func TestEventsReportWhatHappened(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		l := w.leader()
		for _, p := range w.running() {
			for _, n := range w.names {
				p.expectEvents(0, "node-joined "+n)
				p.expectEvents(0, "node-voter "+n)
			}
			p.expectEvents(0, "leader-elected "+l.name, "map-committed join", "shards-moved join")
			p.expectEvents(0, "join-completed "+p.name)
			p.inOrder()
			p.expectJoinSteps()
		}
		w.eventsOfADrain(l)
		for _, p := range w.running() {
			p.expectMovedShards()
		}
		w.eventsOfACrash(l)
		w.eventsOfAnElection(l)
	})
}

// inOrder checks the invariants of all events of a process.
func (p *process) inOrder() {
	_, all := p.events(0)
	for i, e := range all {
		if e.Seq != uint64(i+1) || e.At != p.name || e.Boot == 0 || i > 0 && (e.Time.Before(all[i-1].Time) || e.Epoch < all[i-1].Epoch && e.Kind == event.MapCommitted) {
			p.w.t.Errorf("event %d of %s: %+v", i, p.name, e)
		}
		if x := e.Change; x != nil {
			sum := 0
			for _, m := range x.Moves {
				sum += m.Shards
			}
			if sum != x.Moved || e.Epoch == 0 || !x.FromLog && x.Base >= e.Epoch {
				p.w.t.Errorf("event %d of %s: %+v", i, p.name, *x)
			}
		}
	}
}

// expectJoinSteps checks that the event join-completed has each step once, and that the steps take the whole time.
func (p *process) expectJoinSteps() {
	_, all := p.events(0)
	var names []string
	for _, e := range all {
		if e.Kind != event.JoinCompleted {
			continue
		}
		sum := 0.0
		for _, step := range e.Join.Steps {
			sum += step.MS
			names = append(names, step.Name)
		}
		if math.Abs(sum-e.Join.MS) > 0.1 || sum <= 0 || e.Join.Steps[len(e.Join.Steps)-1].MS < 0 {
			p.w.t.Errorf("%s: steps %+v of a join in %v ms", p.name, e.Join.Steps, e.Join.MS)
		}
	}
	slices.Sort(names)
	p.w.t.Logf("%s joined with %q", p.name, names)
	if want := []string{"announce", "lease", "log", "map", "server"}; !slices.Equal(slices.DeleteFunc(names, func(n string) bool { return n == "app" || n == "snapshot" }), want) {
		p.w.t.Errorf("%s joined with the steps %q, want %q", p.name, names, want)
	}
}

// expectMovedShards checks that the lists of moved shards of all events together lead to the map in force.
func (p *process) expectMovedShards() {
	c, err := p.node.Events().Read("")
	if err != nil {
		p.w.t.Fatal(err)
	}
	c.IncludeShards()
	all, _ := c.Next(1 << 20)
	owners := map[uint16]string{}
	for _, e := range all {
		if e.Kind == event.MapCommitted && e.Change.FromLog {
			return // the process has started with this map
		}
		for _, list := range e.Shards {
			for _, shard := range list.Shards {
				if owners[shard] != list.From {
					p.w.t.Errorf("%s: epoch %d moves shard %d from %q, want from %q", p.name, e.Epoch, shard, list.From, owners[shard])
				}
				owners[shard] = list.To
			}
		}
	}
	committed := p.node.State().Committed()
	for shard := range shards {
		if got, want := owners[uint16(shard)], string(committed.Owner(shardmap.Shard(shard))); got != want {
			p.w.t.Errorf("%s: shard %d is owned by %q according to the events, want %q", p.name, shard, got, want)
		}
	}
}

func (w *world) eventsOfADrain(l *process) {
	p := w.follower()
	_, before := p.events(0)
	_, led := l.events(0)
	w.asks(l, api.Action{Verb: api.Drain, Node: p.name})
	w.untilSettled(w.others(p)...)
	p.expectEvents(len(before), "map-proposed drain", "map-acknowledged drain", "map-committed drain", "node-drained "+p.name)
	_, all := p.events(0)
	e := all[slices.IndexFunc(all, func(e event.Event) bool { return e.Kind == event.MapCommitted && e.Reason == "drain" })]
	if x := e.Change; x.Moved != shards/3 || x.Released != shards/3 || x.Gained != 0 || len(x.Moves) != 2 || phases(x) != "drain wait" {
		w.t.Errorf("the one that is drained tells %+v", *x)
	}
	l.expectEvents(len(led), "map-proposed drain", "map-committed drain")
	_, all = l.events(0)
	e = all[slices.IndexFunc(all, func(e event.Event) bool { return e.Kind == event.MapCommitted && e.Reason == "drain" })]
	if got := phases(e.Change); got != "log drain wait acknowledge commit" {
		w.t.Errorf("the leader tells of the phases %q", got)
	}
	w.asks(l, api.Action{Verb: api.Uncordon, Node: p.name})
	w.untilSettled(w.names...)
}

func phases(x *event.Change) string {
	var names []string
	for _, p := range x.Phases {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func (w *world) eventsOfACrash(l *process) {
	p := w.follower()
	rest := w.others(p)
	_, led := l.events(0)
	p.kill()
	w.untilSettled(rest...)
	l.expectEvents(len(led), "node-dropped "+p.name+" crashed", "map-committed crashed")
	l.expectEvents(len(led), "node-failed "+p.name)
	p.restart()
	w.untilSettled(w.names...)
	l.expectEvents(len(led), "node-failed "+p.name, "node-rejoined "+p.name)
	p.expectEvents(0, "map-committed crashed")
	lines, all := p.events(0)
	found := slices.IndexFunc(all, func(e event.Event) bool { return e.Change != nil })
	if x := all[found].Change; !x.FromLog || x.Moved != 0 || slices.Contains(lines, "map-committed drain") {
		w.t.Errorf("after a restart it tells what its log is gone through again for: %q", lines)
	}
}

func (w *world) eventsOfAnElection(l *process) {
	w.untilVoters(3)
	rest := w.others(l)
	var before []int
	for _, n := range rest {
		_, all := w.all[n].events(0)
		before = append(before, len(all))
	}
	l.kill()
	w.untilSettled(rest...)
	next := w.leader()
	for i, n := range rest {
		w.all[n].expectEvents(before[i], "leader-elected "+next.name)
		if _, all := w.all[n].events(before[i]); all[len(all)-1].Term <= all[before[i]-1].Term {
			w.t.Errorf("%s: term %d after %d", n, all[len(all)-1].Term, all[before[i]-1].Term)
		}
		w.all[n].inOrder()
	}
	next.expectEvents(0, fmt.Sprintf("node-dropped %s crashed", l.name))
}
