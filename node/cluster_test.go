package node_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/admin/api"
	"shardway/endpoints"
	"shardway/node"
	"shardway/shardmap"
)

func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { t.Helper(); f(newWorld(t)) })
}

// three starts a, b and c, waits until they serve requests, and runs f.
func three(t *testing.T, f func(w *world)) {
	t.Helper()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		f(w)
	})
}

func (w *world) committed() *shardmap.Map { return w.running()[0].node.State().Committed() }

// follower returns a node that is not the leader.
func (w *world) follower() *process {
	for _, p := range w.running() {
		if !p.node.Leads() {
			return p
		}
	}
	return nil
}

// others returns the sorted names of the running nodes except p.
func (w *world) others(p *process) []string {
	var out []string
	for _, r := range w.running() {
		if r != p {
			out = append(out, r.name)
		}
	}
	slices.Sort(out)
	return out
}

// untilVoters waits until the log of every node shows n voters. A leader that dies while it promotes a voter can leave a configuration in
// which raft v1.7.3 elects no leader until it returns: a voter rejects a candidate that is not a voter in its own older log.
func (w *world) untilVoters(n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d voters", n), func() bool {
		for _, p := range w.running() {
			voters := 0
			for _, s := range p.node.API().Status().Nodes {
				if s.Voter {
					voters++
				}
			}
			if voters != n {
				return false
			}
		}
		return true
	})
}

func TestThreeNodesServeEvenly(t *testing.T) {
	three(t, func(w *world) {
		for _, m := range w.committed().Members() {
			if got := w.committed().ShardCount(m.ID); got != shards/3 {
				w.t.Errorf("Count(%s) = %d, want %d", m.ID, got, shards/3)
			}
		}
	})
}

func TestJoinMovesTheNewcomersShareOnly(t *testing.T) {
	three(t, func(w *world) {
		before := w.committed()
		w.start("d")
		w.untilSettled("a", "b", "c", "d")
		moves := shardmap.Diff(before, w.committed())
		if want := shards / 4; len(moves) != want {
			w.t.Errorf("a join moved %d shards, want %d", len(moves), want)
		}
		for _, m := range moves {
			if m.To != "d" {
				w.t.Errorf("shard %d moved to %s, want the newcomer", m.Shard, m.To)
			}
		}
	})
}

func TestLeaveMovesTheLeaversShardsOnly(t *testing.T) {
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			three(t, func(w *world) {
				w.untilVoters(3)
				before := w.committed()
				p := w.follower()
				if who == "leader" {
					p = w.leader()
				}
				p.terminate()
				if p.err != nil {
					w.t.Fatalf("Run() = %v, want nil", p.err)
				}
				w.untilSettled(w.others(p)...)
				for _, m := range shardmap.Diff(before, w.committed()) {
					if string(m.From) != p.name {
						w.t.Errorf("shard %d moved from %s, which stays", m.Shard, m.From)
					}
				}
			})
		})
	}
}

func TestCrashedNodesShardsAreTaken(t *testing.T) {
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			three(t, func(w *world) {
				w.untilVoters(3)
				p := w.follower()
				if who == "leader" {
					p = w.leader()
				}
				rest := w.others(p)
				began := time.Now()
				p.kill()
				w.untilSettled(rest...)
				w.t.Logf("served again after %v", time.Since(began))
				p.restart()
				w.untilSettled("a", "b", "c")
			})
		})
	}
}

func TestSilentNodesShardsAreTaken(t *testing.T) {
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			three(t, func(w *world) {
				w.untilVoters(3)
				p := w.follower()
				if who == "leader" {
					p = w.leader()
				}
				rest := w.others(p)
				began := time.Now()
				w.net.Isolate(p.name)
				w.until("the minority has no lease", func() bool { return !p.node.Leased() })
				w.untilSettled(rest...)
				w.t.Logf("served again after %v", time.Since(began))
				w.net.Heal()
				w.untilSettled("a", "b", "c")
			})
		})
	}
}

func TestTwoNodesJoiningTogetherGiveAnEvenMap(t *testing.T) {
	t.Parallel()
	for i := range share(50, 8) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.start("a")
				w.untilSettled("a")
				w.start("b")
				time.Sleep(time.Duration(i) * 2 * time.Millisecond)
				w.start("c")
				w.untilSettled("a", "b", "c")
				for _, m := range w.committed().Members() {
					if got := w.committed().ShardCount(m.ID); got != shards/3 {
						w.t.Errorf("Count(%s) = %d, want %d", m.ID, got, shards/3)
					}
				}
			})
		})
	}
}

func TestAllKilledAndRestartedServeTheSameMap(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		before := w.committed()
		for _, p := range w.running() {
			p.kill()
		}
		for _, n := range w.names {
			w.all[n].restart()
		}
		w.untilSettled("a", "b", "c")
		if moves := shardmap.Diff(before, w.committed()); len(moves) != 0 {
			w.t.Errorf("a restart of all moved %d shards, want 0", len(moves))
		}
	})
}

func TestAllStoppedAndAnyTwoRestartedServe(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		for _, p := range w.running() {
			p.stop()
		}
		for _, n := range w.names {
			<-w.all[n].done
			w.all[n].host.Crash()
			if err := w.all[n].err; err != nil {
				w.t.Fatalf("Run() of %s = %v, want nil", n, err)
			}
		}
		w.all["b"].restart()
		w.all["c"].restart()
		w.untilSettled("b", "c")
	})
}

func TestThreeExpectEachOther(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.BootstrapExpect = 3 }
		w.start("c")
		w.start("b")
		w.start("a")
		w.untilSettled("a", "b", "c")
	})
}

// The dead voter was the leader: its successor has never received a heartbeat from it.
func TestDeadVoterIsRemovedAfterItsTime(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.RemoveDeadAfter = 10 * time.Second }
		for _, n := range []string{"a", "b", "c", "d"} {
			w.start(n)
		}
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(4)
		for _, want := range []int{3, 3} { // with three voters there is no spare one
			began, p := time.Now(), w.leader()
			rest := w.others(p)
			p.kill()
			w.untilSettled(rest...)
			w.untilVoters(want)
			if len(rest) == 3 && time.Since(began) < 10*time.Second {
				w.t.Errorf("the dead voter was removed after %v, want 10 s at least", time.Since(began))
			}
			time.Sleep(30 * time.Second)
			w.untilVoters(want)
		}
	})
}

// All nodes try to join the others, and none has a bootstrap size: they would wait forever without a reported reason.
func TestNodesWithoutBootstrapReportRemedy(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			if len(o.Join) == 0 {
				o.Join = []string{o.GossipAdvertise}
			}
		}
		w.start("a")
		w.start("b")
		for _, p := range w.running() {
			<-p.node.Started()
			w.until(p.name+" says what to do", func() bool {
				err := p.node.API().Ready()
				return err != nil && strings.Contains(err.Error(), "--bootstrap-expect")
			})
		}
	})
}

func TestFewerThanExpectedAreCounted(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.BootstrapExpect = 3 }
		w.start("a")
		w.start("b")
		a := w.all["a"].node
		<-a.Started()
		w.until("a says how many are here", func() bool {
			err := a.API().Ready()
			return err != nil && strings.Contains(err.Error(), "2 of the 3 nodes")
		})
	})
}

func TestEndpointsAreOfPresentNodes(t *testing.T) {
	three(t, func(w *world) {
		p := w.follower()
		l := w.leader().node
		has := func() bool {
			return slices.ContainsFunc(l.API().Endpoints(), func(e api.Endpoint) bool {
				return e.Node == p.name && e.Kind == api.KindNode && e.Name == endpoints.HTTP && e.Addr == p.host.Addr(8080)
			})
		}
		w.until("it is listed", has)
		p.kill()
		w.until("it is not listed any more", func() bool { return !has() })
		p.restart()
		w.until("it is listed again", has)
	})
}

// Gossip still shows a node while it leaves; the leader must not add its server again.
func TestNodeThatLeftIsRemovedFromRaft(t *testing.T) {
	for i := range share(8, 3) {
		bubble(t, func(w *world) {
			for _, n := range []string{"a", "b", "c", "d"} {
				w.start(n)
			}
			w.untilSettled("a", "b", "c", "d")
			w.untilVoters(4)
			p := w.follower()
			time.Sleep(time.Duration(i) * 17 * time.Millisecond)
			p.terminate()
			w.untilSettled(w.others(p)...)
			time.Sleep(time.Second)
			if got := w.leader().node.Servers(); slices.Contains(got, p.name) {
				w.t.Errorf("%s has left, and the servers are %v", p.name, got)
			}
		})
	}
}
