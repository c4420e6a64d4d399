package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// One of two voters cannot be removed. Once, an attempt with force counted as a vouch that the node runs nothing, although it was refused
// afterwards: its shards were given away immediately.
func TestRefusedRemovalVouchesForNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.untilVoters(2)
		l, p := w.leader(), w.follower()
		w.during(func() {
			if err := p.node.LeaveGossip(context.Background()); err != nil {
				w.t.Error(err)
			}
		})
		further := p.node.Stall() // it votes, and sends no heartbeats
		defer further()
		w.until("it is refused for being one of two", func() bool {
			err := l.node.API().Do(w.t.Context(), api.Action{Verb: api.Remove, Node: p.name, Force: true})
			if !errors.Is(err, api.ErrRefused) {
				w.t.Fatalf("removed one of two voters: %v", err)
			}
			return strings.Contains(err.Error(), "one of two voters")
		})
		id := shardmap.NodeID(p.name)
		w.until("its shards are taken", func() bool { return l.node.Known().IsDropped(id) })
		if d, _ := l.node.Known().Drop(id); d.Cause == ack.CauseRemoved {
			w.t.Errorf("it was dropped as %v, by the word of one who was refused", d.Cause)
		}
	})
}

// Gossip takes seconds to notice a crash. An operator who vouches that a killed node is gone
// does not wait for that; without --force the error says for how long to wait.
func TestKilledNodeIsRemovedWithForceBeforeGossipNotices(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 0, 4)
		p := w.voter(false)
		rest := w.others(p)
		p.kill()
		l := w.leader()
		remove := api.Action{Verb: api.Remove, Node: p.name}
		w.within(time.Second, "the leader knows that its process is gone", func() bool {
			err := l.node.API().Do(w.t.Context(), remove)
			return err != nil && strings.Contains(err.Error(), "is still alive according to gossip")
		})
		w.refused(l, remove, api.ErrRefused, "try again after 5 s")
		if l.node.Member(p.name) != "alive" {
			w.t.Fatalf("gossip says of %s that it is %s, so this test shows nothing", p.name, l.node.Member(p.name))
		}
		remove.Force = true
		began := time.Now()
		w.does(l, remove)
		if took := time.Since(began); took > 500*time.Millisecond {
			w.t.Errorf("it took %v", took)
		}
		w.untilServers(rest...)
		w.untilSettled(rest...)
		w.unlisted(p.name)
		time.Sleep(time.Minute)
		w.untilServers(rest...)
	})
}

// A node that gossip sees is running, although its heartbeats do not arrive. With --force the operator vouches for the opposite, and the
// leader adds the node again once it receives a heartbeat.
func TestNodeThatGossipSeesIsNotRemoved(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 0, 4)
		l, p := w.leader(), w.spare()
		w.net.Reset(l.name, p.name)
		w.until("it is taken for gone", func() bool { return l.node.Known().IsDropped(shardmap.NodeID(p.name)) })
		time.Sleep(5 * time.Second) // no heartbeats for a long time
		if l != w.leader() || l.node.Member(p.name) != "alive" {
			w.t.Fatalf("the leader is %v, and gossip says of %s that it is %s", w.leader(), p.name, l.node.Member(p.name))
		}
		w.refused(l, api.Action{Verb: api.Remove, Node: p.name}, api.ErrRefused, "is still alive according to gossip")
		w.does(l, api.Action{Verb: api.Remove, Node: p.name, Force: true})
		w.net.Heal()
		w.untilSettled("a", "b", "c", "d")
	})
}

// awaited starts four nodes and stops a nonvoter as a node that restarts in place: it owns its shards, and no node sees it. It returns that
// node and the names of the others.
func (w *world) awaited() (p *process, rest []string) {
	w.t.Helper()
	w.tune = func(o *node.Options) { o.MaxVoters, o.HoldGrace = 3, 10*time.Minute }
	for _, name := range []string{"a", "b", "c", "d"} {
		w.start(name)
	}
	w.untilSettled("a", "b", "c", "d")
	w.untilVoters(3)
	p = w.spare()
	rest = w.others(p)
	p.terminate()
	w.until("nobody sees it", func() bool {
		return !slices.ContainsFunc(w.running(), func(at *process) bool { return at.node.Member(p.name) == "alive" })
	})
	time.Sleep(time.Minute)
	return p, rest
}

// A new leader has received no heartbeats. A node that ended long ago does not count as running for that reason.
func TestNewLeaderRemovesNodeThatHasEnded(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		p, rest := w.awaited()
		l := w.leader()
		w.does(l, api.Action{Verb: api.StepDown})
		w.until("another one leads", func() bool { at := w.leader(); return at != nil && at != l })
		w.does(w.leader(), api.Action{Verb: api.Remove, Node: p.name, Force: true})
		w.untilSettled(rest...)
		w.untilServers(rest...)
	})
}

// The shards of a node that restarts in place wait for it, until an operator vouches that it runs nothing and returns with nothing.
func TestVouchedForIsWaitedForNoLonger(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		p, rest := w.awaited()
		l := w.leader()
		w.refused(l, api.Action{Verb: api.Remove, Node: p.name}, api.ErrRefused, fmt.Sprintf("still owns %d shards", shards/4))
		w.does(l, api.Action{Verb: api.Remove, Node: p.name, Force: true})
		w.within(5*time.Second, "its shards are taken", func() bool { return l.node.State().Committed().ShardCount(shardmap.NodeID(p.name)) == 0 })
		w.untilSettled(rest...)
	})
}

// A nonvoter can be removed next to two voters.
func TestNonvoterNextToTwoVotersIsRemoved(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.untilVoters(2)
		w.start("c")
		w.all["c"].log.close() // it never catches up
		w.untilServers("a", "b", "c")
		w.all["c"].kill()
		w.until("it is gone", func() bool {
			err := w.leader().node.API().Do(w.t.Context(), api.Action{Verb: api.Remove, Node: "c"})
			if err != nil && !strings.Contains(err.Error(), "would be added again") { // it was heard a moment ago
				w.t.Fatal(err)
			}
			return err == nil
		})
		w.untilServers("a", "b")
	})
}

// A node's server is removed only on the request of that node, and if enough voters are left.
func TestServerIsRemovedOnlyOnItsOwnRequest(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		l, p := w.leader(), w.follower()
		gone := w.all[w.others(l)[0]]
		if gone == p {
			gone = w.all[w.others(l)[1]]
		}
		if err := p.node.AskLeave(w.t.Context(), l.name, gone.node.Server()); !errors.Is(err, api.ErrRefused) {
			w.t.Errorf("one asked for another one's server: %v, want that it is refused", err)
		}
		gone.kill()
		w.untilSettled(w.others(nil)...)
		if err := p.node.AskLeave(w.t.Context(), l.name, p.node.Server()); err != nil {
			w.t.Errorf("that a server stays is no fault: %v", err)
		}
		time.Sleep(time.Second)
		w.untilServers("a", "b", "c")
	})
}

// A removal is sent to present nodes only: it does not wait for missing ones, and no node logs a failure to notify a non-member or itself.
func TestRemovalIsSentToPresentNodes(t *testing.T) {
	t.Parallel()
	j := &journal{}
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.MaxVoters, o.Log = 3, zerolog.New(j).Level(zerolog.WarnLevel) }
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c", "d", "e")
		w.untilVoters(3)
		l := w.leader()
		p := w.spare()
		p.kill()
		away := w.spare()
		if away == p {
			away = w.voter(false)
		}
		away.host.Vanish()
		h := w.net.Host("x")
		s := w.forger(h, "x", h.Addr(7946), nil)
		defer func() { _ = s.Shutdown() }()
		w.until("all is seen", func() bool {
			return l.node.Member(p.name) == "failed" && l.node.Member(away.name) == "failed" && l.node.Member("x") == "alive"
		})
		began := time.Now()
		w.does(w.leader(), api.Action{Verb: api.Remove, Node: p.name})
		if took := time.Since(began); took > time.Second {
			w.t.Errorf("it took %v", took)
		}
		if n, _ := j.about("removed node still in gossip"); n > 0 {
			w.t.Errorf("%d lines about somebody who was not told", n)
		}
	})
}

// A single node cannot hand over leadership, and returns an error.
func TestLeaderWithoutOthersStays(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.untilSettled("a")
		w.refused(w.all["a"], api.Action{Verb: api.StepDown}, api.ErrRefused, "leadership transfer failed")
	})
}

// A caller whose removal did not happen gets an error, within the time limit of a response.
func TestRemovalThatFailsIsReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 0, 4)
		p := w.voter(false)
		rest := w.others(p)
		p.kill()
		w.untilSettled(rest...)
		l := w.leader()
		w.until("it is missed", func() bool { return l.node.Member(p.name) == "failed" })
		w.net.Isolate(l.name)
		began := time.Now()
		err := l.node.API().Do(w.t.Context(), api.Action{Verb: api.Remove, Node: p.name})
		if took := time.Since(began); err == nil || took > 10*time.Second {
			w.t.Errorf("Do = %v after %v, want a fault within 10s", err, took)
		}
		w.net.Heal()
		w.untilSettled(rest...)
	})
}

// Only the leader can make nodes stop listing another one, or check whether they reach another one.
func TestOnlyTheLeaderHasANodeForgotten(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 0, 4)
		p := w.spare()
		rest := w.others(p)
		p.kill()
		w.untilSettled(rest...)
		l := w.leader()
		others := slices.DeleteFunc(slices.Clone(rest), func(n string) bool { return n == l.name })
		from, to := w.all[others[0]], w.all[others[1]]
		w.until("it is missed", func() bool { return to.node.Member(p.name) == "failed" })
		if err := from.node.AskForget(w.t.Context(), to.name, p.name); !errors.Is(err, api.ErrRefused) {
			w.t.Errorf("of one that does not lead: %v, want that it is refused", err)
		}
		if got := to.node.Member(p.name); got != "failed" {
			w.t.Errorf("by the word of one that does not lead it is %q", got)
		}
		if err := from.node.AskCheck(w.t.Context(), to.name, l.name); !errors.Is(err, api.ErrRefused) {
			w.t.Errorf("a check for one that does not lead: %v, want that it is refused", err)
		}
		if err := l.node.AskCheck(w.t.Context(), to.name, from.name); err != nil {
			w.t.Errorf("a check for the leader: %v", err)
		}
		if err := l.node.AskForget(w.t.Context(), to.name, p.name); err != nil || to.node.Member(p.name) != "" {
			w.t.Errorf("of the leader: %v, and it is %q", err, to.node.Member(p.name))
		}
	})
}
