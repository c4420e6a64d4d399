package node_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/node"
	"shardway/shardmap"
)

// founding starts nodes, any three of which can found a cluster. It returns when cond is true, and checks it more often than a message
// takes.
func founding(w *world, names []string, cond func() bool) {
	w.t.Helper()
	w.tune = func(o *node.Options) { o.BootstrapExpect = 3 }
	for _, n := range names {
		w.start(n)
	}
	for _, p := range w.running() {
		<-p.node.Started()
	}
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			w.t.Fatal("the founding never came so far")
		}
	}
}

// untilOne waits until all named nodes serve in one cluster.
func (w *world) untilOne(names ...string) {
	w.t.Helper()
	w.untilSettled(names...)
	for _, n := range names {
		if got, want := w.all[n].node.API().Status().Cluster, w.all[names[0]].node.API().Status().Cluster; got != want {
			w.t.Errorf("%s is in cluster %s, %s in %s", n, got, names[0], want)
		}
	}
}

// expectNoLeader checks that no leader is elected during d.
func (w *world) expectNoLeader(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if l := w.leader(); l != nil {
			w.t.Fatalf("%s leads a cluster of its own", l.name)
		}
	}
}

// A founder that dies before it has added another node has a cluster on its disk. The remaining nodes are more than expected, and must not
// found a second cluster.
func TestDeadFounderIsWaitedFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		all := []string{"a", "b", "c", "d", "e"}
		founding(w, all, func() bool { return len(w.all["a"].node.Servers()) > 0 })
		w.all["a"].kill()
		w.expectNoLeader(time.Duration(share(60, 10)) * time.Second)
		if err := w.all["b"].node.API().Ready(); err == nil || !strings.Contains(err.Error(), "node a was about to bootstrap the cluster and is gone; start it again") {
			t.Errorf("Ready() = %v, want it to say who is missing", err)
		}
		w.all["c"].kill() // its promise is on its disk
		w.all["c"].restart()
		w.expectNoLeader(10 * time.Second)
		w.all["a"].restart()
		w.untilOne(all...)
	})
}

// When a founder loses its disk, nothing of its cluster remains, and it founds again.
func TestFounderThatLostItsDiskFoundsAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		all := []string{"a", "b", "c", "d", "e"}
		founding(w, all, func() bool { return len(w.all["a"].node.Servers()) > 0 })
		w.all["a"].kill()
		w.all["a"].wipe()
		w.expectNoLeader(10 * time.Second)
		w.all["a"].restart()
		w.untilOne(all...)
	})
}

// A founder that has not founded yet gives way to a smaller id, also after a crash with promises of other nodes.
func TestFounderGivesWayToASmallerID(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		founding(w, []string{"c", "d", "e"}, func() bool { return w.all["d"].node.Promised() == "c" })
		if len(w.all["c"].node.Servers()) > 0 {
			t.Fatal("founded already")
		}
		w.all["c"].kill()
		w.start("a")
		w.expectNoLeader(time.Duration(share(60, 10)) * time.Second)
		w.all["c"].restart()
		w.untilOne("a", "c", "d", "e")
	})
}

func TestFounderKilledAtAnyMomentFoundsOneCluster(t *testing.T) {
	t.Parallel()
	for i := range share(10, 2) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				all := []string{"a", "b", "c", "d", "e"}
				founding(w, all, func() bool { return w.all["a"].node.Promised() == "a" })
				time.Sleep(time.Duration(i*i) * 1000 * time.Microsecond)
				w.all["a"].kill()
				time.Sleep(20 * time.Second)
				w.all["a"].restart()
				w.untilOne(all...)
			})
		})
	}
}

// The first map waits for all nodes that found the cluster. Once, one of three nodes that started together got all shards, and then each of
// the others got its share.
func TestFirstMapHasAllBootstrapNodes(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		founding(w, []string{"c", "b", "a"}, func() bool { return w.leader() != nil })
		w.untilSettled("a", "b", "c")
		w.staysFirst(32)
	})
}

// A gateway is one of the founding nodes and gets no shards, so the first map does not wait for it. It also does not wait forever for a
// node that does not start.
func TestFirstMapWaitsForNoGatewayAndNotForEver(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.BootstrapExpect, o.Gateway = 3, strings.HasSuffix(o.Dir.Node(), "c") }
		for _, n := range []string{"c", "b", "a"} {
			w.start(n)
		}
		w.until("a and b have a map", func() bool { return w.all["a"].node.State().Committed().Epoch() > 0 })
		w.staysFirst(48)
	})
	bubble(t, func(w *world) {
		founding(w, []string{"a", "b", "c"}, func() bool { return len(w.all["a"].node.Servers()) > 0 })
		w.all["c"].kill()
		began := time.Now()
		w.untilSettled("a", "b")
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the first map came %v after the third was gone", took)
		}
		w.staysFirst(48)
	})
}

// staysFirst checks for a while that the map keeps its shards and its epoch, and that each member owns at least least shards.
func (w *world) staysFirst(least int) {
	w.t.Helper()
	for range 20 {
		m := w.committed()
		for s := range shardmap.Shard(m.Len()) {
			if m.OwnedSince(s) != m.Epoch() || m.Owner(s) == "" {
				w.t.Fatalf("shard %d is owned by %q since %d, and the map is of %d: it has moved", s, m.Owner(s), m.OwnedSince(s), m.Epoch())
			}
		}
		for _, x := range m.Members() {
			if m.ShardCount(x.ID) < least {
				w.t.Fatalf("%s has %d shards, want %d at least", x.ID, m.ShardCount(x.ID), least)
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
}
