package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

func TestNodeThatNeverAcknowledgesIsDroppedAndReturns(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		rest := w.others(p)
		p.log.close()
		w.start("d") // a join starts a round
		w.until("the others go on without it", func() bool {
			for _, n := range append(rest, "d") {
				c := w.all[n].node.State().Committed()
				if c.IsMember(shardmap.NodeID(p.name)) || !c.IsMember("d") || w.all[n].node.State().HasOpenProposal() {
					return false
				}
			}
			return true
		})
		if p.node.Leased() {
			w.t.Error("a node that did not acknowledge its drop has a lease")
		}
		p.log.open()
		w.untilSettled("a", "b", "c", "d")
	})
}

// Shards with running requests keep their owner for drain-timeout. Then a map takes them, which
// is not committed while the requests run.
func TestRunningRequestDelaysTheMoveOfItsShard(t *testing.T) {
	three(t, func(w *world) {
		var releases []func()
		for s := range shardmap.Shard(shards) {
			if r, ok := w.all["b"].node.Run1(s); ok {
				releases = append(releases, r)
			}
		}
		w.start("d")
		w.until("idle shards have moved", func() bool { return w.committed().ShardCount("d") > 0 })
		w.until("busy shards are proposed", func() bool {
			s := w.leader().node.State()
			return s.HasOpenProposal() && s.Proposed().ShardCount("b") < len(releases)
		})
		before := w.committed()
		if got := before.ShardCount("b"); got != len(releases) {
			w.t.Fatalf("b owns %d shards, and requests of %d run there", got, len(releases))
		}
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			w.check()
			if e := w.leader().node.State().Committed().Epoch(); e != before.Epoch() {
				w.t.Fatalf("map %d committed while requests of moving shards run", e)
			}
		}
		for _, r := range releases {
			r()
		}
		w.untilSettled("a", "b", "c", "d")
	})
}

func TestRestartWithinTheGraceMovesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Pace.RestartGrace = 5 * time.Second }
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		before := w.committed()
		p := w.follower()
		p.kill()
		time.Sleep(200 * time.Millisecond)
		p.restart()
		w.untilSettled("a", "b", "c")
		if moves := shardmap.Diff(before, w.committed()); len(moves) != 0 {
			w.t.Errorf("a restart within the grace moved %d shards, want 0", len(moves))
		}
	})
}

func TestStepDownMovesNothing(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		before, old := w.committed(), w.leader()
		if err := w.follower().node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown}); err != nil {
			w.t.Fatalf("Do(step-down) = %v, want nil", err)
		}
		w.until("another leads", func() bool { l := w.leader(); return l != nil && l != old })
		w.untilSettled("a", "b", "c")
		if moves := shardmap.Diff(before, w.committed()); len(moves) != 0 {
			w.t.Errorf("an election moved %d shards, want 0", len(moves))
		}
	})
}

func TestWipedVoterElectsNoLeader(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		a, b, c := w.all["a"], w.all["b"], w.all["c"]
		c.kill()
		w.untilSettled("a", "b") // c does not have this map
		last := w.committed()
		a.kill()
		b.kill()
		b.wipe()
		b.restart()
		c.restart()
		for range 400 {
			time.Sleep(25 * time.Millisecond)
			w.check()
			if l := w.leader(); l != nil {
				w.t.Fatalf("%s leads though only one of three disks with votes is up", l.name)
			}
		}
		a.restart()
		w.untilSettled("a", "b", "c")
		if e := w.committed().Epoch(); e <= last.Epoch() {
			w.t.Errorf("Epoch() = %d after the return, want above %d", e, last.Epoch())
		}
		w.untilVoters(3)
	})
}

func TestMinorityForwardsAndServesNothing(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		w.net.Isolate(p.name)
		w.until("it has no lease", func() bool { return !p.node.Leased() })
		for s := range shardmap.Shard(shards) {
			if _, ok := p.node.Admits(s); ok {
				w.t.Fatalf("shard %d is admitted without a lease", s)
			}
		}
		if err := p.node.API().Ready(); err == nil {
			w.t.Error("Ready() = nil on a node without a lease")
		}
		w.net.Heal()
		w.untilSettled("a", "b", "c")
	})
}

func TestOneWayLinkCountsAsSilence(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		l := w.leader()
		p := w.follower()
		w.net.Cut(l.name, p.name) // the leader receives its heartbeats, and the answers are lost
		w.until("its shards are taken", func() bool {
			return !l.node.State().Committed().IsMember(shardmap.NodeID(p.name)) || w.leader() != l
		})
		w.net.Heal()
		w.untilSettled("a", "b", "c")
	})
}

func TestTakeoverTimeoutWaitsForDeadAfter(t *testing.T) {
	for takeover, least := range map[ack.Takeover]time.Duration{ack.TakeoverTimeout: 2 * time.Second, ack.TakeoverLease: 400 * time.Millisecond, ack.TakeoverImmediate: 0} {
		bubble(t, func(w *world) {
			w.tune = func(o *node.Options) { o.Timing.Takeover = takeover }
			w.start("a")
			w.start("b")
			w.start("c")
			w.untilSettled("a", "b", "c")
			w.untilVoters(3)
			p := w.follower()
			rest := w.others(p)
			began := time.Now()
			p.kill()
			w.untilSettled(rest...)
			if took := time.Since(began); took < least {
				w.t.Errorf("takeover %d: taken after %v, want at least %v", takeover, took, least)
			}
		})
	}
}

func TestStopTheWorldHoldsEverything(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Timing.RebalanceMode = ack.RebalanceStopTheWorld }
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		b := w.all["b"].node
		var releases []func()
		for s := range shardmap.Shard(shards) {
			if r, ok := b.Run1(s); ok {
				releases = append(releases, r) // keeps running, so the round below stays open
			}
		}
		w.start("d")
		w.until("the join is proposed", func() bool { return b.State().HasOpenProposal() })
		for _, p := range w.running() {
			for s := range shardmap.Shard(shards) {
				if _, ok := p.node.Admits(s); ok && p.node.State().HasOpenProposal() {
					w.t.Fatalf("%s admits shard %d during a round", p.name, s)
				}
			}
		}
		for _, r := range releases {
			r()
		}
		w.untilSettled("a", "b", "c", "d")
	})
}

func TestRemoveTakesADeadNodeOut(t *testing.T) {
	three(t, func(w *world) {
		w.start("d")
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(4)
		l := w.leader().node
		if err := l.API().Do(w.t.Context(), api.Action{Verb: api.Remove, Node: "nobody"}); err == nil {
			w.t.Error("Do(remove nobody) = nil, want an error")
		}
		d := w.all["d"]
		if d.node.Leads() {
			d = w.follower()
		}
		rest := w.others(d)
		if err := w.leader().node.API().Do(w.t.Context(), api.Action{Verb: api.Remove, Node: d.name}); err == nil {
			w.t.Error("removing a running node = nil, want an error")
		}
		d.kill()
		w.untilSettled(rest...)
		w.until("it is removed", func() bool {
			return w.leader() != nil && w.leader().node.API().Do(w.t.Context(), api.Action{Verb: api.Remove, Node: d.name}) == nil
		})
		w.untilVoters(3)
	})
}

func TestQuickRestartGivesTheNodeItsShareAgain(t *testing.T) {
	for _, pause := range []time.Duration{0, 200 * time.Millisecond, 540 * time.Millisecond, time.Second} {
		three(t, func(w *world) {
			w.untilVoters(3)
			p := w.follower()
			p.kill()
			time.Sleep(pause)
			p.restart()
			w.until("it has left the map or returned", func() bool { return p.node.Leased() })
			w.untilSettled("a", "b", "c")
			if got := w.committed().ShardCount(shardmap.NodeID(p.name)); got != shards/3 {
				w.t.Errorf("Count(%s) = %d after a restart, want %d", p.name, got, shards/3)
			}
		})
	}
}

// A leave notice gives the shards of a node to other nodes immediately. A node that does not see the new map must therefore stop using its
// lease.
func TestNodeThatSentLeaveNoticeAdmitsNothing(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		release, ok := func() (func(), bool) {
			for s := range shardmap.Shard(shards) {
				if r, ok := p.node.Run1(s); ok {
					return r, true
				}
			}
			return nil, false
		}()
		if !ok {
			w.t.Fatal("the follower admits nothing")
		}
		p.log.close()
		defer p.log.open()
		p.node.SendLeaveNotice()
		w.until("it has no lease", func() bool { return !p.node.Leased() })
		before := w.leader().node.State().Committed().Epoch()
		time.Sleep(time.Second)
		if e := w.leader().node.State().Committed().Epoch(); e != before {
			w.t.Errorf("map %d was committed while a request ran on the leaver", e)
		}
		release()
		w.until("the others have its shards", func() bool {
			return !w.leader().node.State().Committed().IsMember(shardmap.NodeID(p.name))
		})
	})
}

func TestWithoutMajorityTheMissingAreNamed(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		a := w.all["a"].node
		w.all["b"].kill()
		w.all["c"].kill()
		w.until("the missing voters are named", func() bool {
			ready, do := a.API().Ready(), a.API().Do(w.t.Context(), api.Action{Verb: api.StepDown})
			const want = "1 of 3 voters is present and 2 are required, so there is no leader: b and c are missing; start b and c"
			return ready != nil && strings.Contains(ready.Error(), want) && do != nil && strings.Contains(do.Error(), want)
		})
	})
}

// A node may return with other flags: without its app it gives up its shards, and with another weight it gets another share.
func TestRestartWithOtherFlagsChangesTheMap(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		b := w.all["b"]
		w.tune = func(o *node.Options) { o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil }
		b.terminate()
		b.restart()
		<-b.node.Started()
		w.until("b owns nothing and routes", func() bool {
			return w.settled("a", "c") && b.node.API().Ready() == nil && b.node.State().Committed().Epoch() != 0
		})
		w.tune = func(o *node.Options) { o.Weight = 2 }
		b.kill()
		b.restart()
		w.untilSettled("a", "b", "c")
		if got := w.committed().ShardCount("b"); got != shards/2 {
			w.t.Errorf("Count(b) = %d with weight 2 of 4, want %d", got, shards/2)
		}
	})
}

// A node that has the log on its disk but has not applied it can be elected, and grants no lease. Once, a drain of the leader gave
// leadership to such a node, and no requests were served until it stepped down. Such a node becomes the leader only if there is no other
// one.
func TestLeadershipGoesToUpToDateNode(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		three(t, func(w *world) {
			w.untilVoters(3)
			l := w.leader()
			rest := w.others(l)
			slices.Sort(rest)
			behind, other := w.all[rest[0]], w.all[rest[1]]
			behind.log.close()
			defer behind.log.open()
			if alone {
				other.log.close()
				defer other.log.open()
			}
			w.asks(l, api.Action{Verb: api.Pin, Shard: uint32(shardAsked(w.committed(), l.name)), Node: other.name})
			w.until("a map is proposed", func() bool { return l.node.State().HasOpenProposal() })
			time.Sleep(200 * time.Millisecond) // nodes that keep up have reported it
			w.asks(l, api.Action{Verb: api.StepDown})
			if next := w.leader(); next == nil || next == l || next == behind && !alone {
				w.t.Errorf("leadership has not gone to %s", other.name)
			}
		})
	}
}
