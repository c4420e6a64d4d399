package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
)

// cluster starts the given number of nodes, of which three vote, and returns once they serve.
func cluster(w *world, deadAfter time.Duration, nodes int) {
	w.t.Helper()
	w.tune = func(o *node.Options) { o.MaxVoters, o.RemoveDeadAfter = 3, deadAfter }
	var all []string
	for i := range nodes {
		w.start(string(rune('a' + i)))
		all = append(all, string(rune('a'+i)))
	}
	w.untilSettled(all...)
	w.untilVoters(3)
}

// voter returns the leader if leads is true, and a voter that does not lead otherwise.
func (w *world) voter(leads bool) *process {
	w.t.Helper()
	for _, p := range w.running() {
		for _, n := range p.node.API().Status().Nodes {
			if n.ID == p.name && n.Voter && p.node.Leads() == leads {
				return p
			}
		}
	}
	w.t.Fatal("no such voter")
	return nil
}

// untilServers waits until the leader's configuration has exactly these nodes.
func (w *world) untilServers(want ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("the servers are %v", want), func() bool {
		l := w.leader()
		if l == nil {
			return false
		}
		got := l.node.Servers()
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// A dead voter is replaced before it is removed. Once, three of five nodes voted. One voter died, and long after it another one: of three
// live nodes one could vote, and there was no leader for good.
func TestDeadVotersPlacesAreFilled(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false}[:share(2, 1)] {
		bubble(t, func(w *world) {
			cluster(w, 10*time.Second, 5)
			for range 2 {
				p := w.voter(leads)
				rest := w.others(p)
				p.kill()
				w.untilSettled(rest...)
				time.Sleep(30 * time.Second)
				w.untilVoters(3)
				w.untilServers(rest...)
			}
			w.untilSettled(w.others(nil)...)
		})
	}
}

// A dead voter without a replacement stays if fewer than three votes would be left.
func TestDeadVoterStaysWithoutASpare(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 10*time.Second, 3)
		p := w.voter(false)
		p.kill()
		time.Sleep(30 * time.Second)
		w.untilVoters(3)
		w.untilServers("a", "b", "c")
		p.restart()
		w.untilSettled("a", "b", "c")
	})
}

// A crashed nonvoter is removed after its time. Once, it stayed in the configuration forever.
func TestCrashedNonvoterIsRemovedAfterItsTime(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 10*time.Second, 4)
		nodes := w.leader().node.API().Status().Nodes
		p := w.all[nodes[slices.IndexFunc(nodes, func(n api.Node) bool { return !n.Voter })].ID]
		rest := w.others(p)
		p.kill()
		w.untilSettled(rest...)
		time.Sleep(8 * time.Second)
		if got := w.leader().node.Servers(); len(got) != 4 {
			w.t.Errorf("servers %v before its time has come, want all four", got)
		}
		w.untilServers(rest...)
		p.restart()
		w.untilSettled(w.names...)
		w.untilServers(w.names...)
	})
}
