package embed

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/event"
)

// callbackWorld is an app with all callbacks, and the events of its node.
type callbackWorld struct {
	t    *testing.T
	ring *event.Ring
	log  bytes.Buffer // read it after stop
	stop func()

	mu    sync.Mutex
	calls []string
	view  struct { // the present state for skipToPresent
		nodes               []string
		proposed, committed uint64
		health              string
	}
	during func(call string) // is called by each callback; nil means no call
}

// runCallbacks runs f with the callbacks in virtual time.
func runCallbacks(t *testing.T, f func(w *callbackWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &callbackWorld{t: t, ring: event.NewRing(event.Options{Node: "a", RunID: 7, Capacity: 16})}
		var running sync.Mutex // one call at a time
		record := func(ctx context.Context, call string) {
			if !running.TryLock() {
				t.Errorf("%s is called during another call", call)
			} else {
				defer running.Unlock()
			}
			w.mu.Lock()
			if ctx.Err() != nil {
				call += " at the end"
			}
			w.calls = append(w.calls, call)
			during := w.during
			w.mu.Unlock()
			if during != nil {
				during(call)
			}
		}
		node := func(name string) func(context.Context, NodeChange) {
			return func(ctx context.Context, c NodeChange) {
				record(ctx, strings.TrimSpace(name+" "+c.Node+" "+c.Reason))
			}
		}
		config := Config{
			NodeJoined: node("joined"), NodeRejoined: node("rejoined"), NodeLeft: node("left"),
			RebalanceStarted: func(ctx context.Context, r Rebalance) {
				record(ctx, fmt.Sprintf("started %d %s %d", r.Epoch, r.Reason, r.Moved))
				if r.Abandoned || r.Duration != 0 {
					t.Errorf("started: %+v", r)
				}
			},
			RebalanceCompleted: func(ctx context.Context, r Rebalance) {
				record(ctx, fmt.Sprintf("completed %d %v %v", r.Epoch, r.Duration, r.Abandoned))
			},
			ClusterHealthChanged: func(ctx context.Context, h ClusterHealth) { record(ctx, "health "+h.Previous+">"+h.State) },
		}
		c := newCallbacks(&config, clusterView{
			presentNodes: func() []string { w.mu.Lock(); defer w.mu.Unlock(); return w.view.nodes },
			epochs:       func() (uint64, uint64) { w.mu.Lock(); defer w.mu.Unlock(); return w.view.proposed, w.view.committed },
			health:       func() (string, bool) { w.mu.Lock(); defer w.mu.Unlock(); return w.view.health, w.view.health != "" },
		}, zerolog.New(&w.log))
		w.stop = sync.OnceFunc(c.start(t.Context(), w.ring))
		f(w)
		w.stop()
	})
}

// add adds events about a node.
func (w *callbackWorld) add(node string, kinds ...event.Kind) {
	for _, kind := range kinds {
		w.ring.Add(event.Event{Kind: kind, Node: node})
	}
}

// addMap adds an event of a map with a reason.
func (w *callbackWorld) addMap(kind event.Kind, epoch uint64, moved int) {
	w.ring.Add(event.Event{Kind: kind, Epoch: epoch, Reason: "join", Change: &event.Change{Moved: moved}})
}

// expect checks the calls since the previous check.
func (w *callbackWorld) expect(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.calls, want) {
		w.t.Errorf("calls %q, want %q", w.calls, want)
	}
	w.calls = nil
}

func TestCallbacksOfNodesAlternate(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		w.add("a", event.NodeJoined)
		w.add("b", event.NodeJoined, event.NodeJoined, event.NodeVoter)
		w.expect("joined a", "joined b")
		w.add("b", event.NodeFailed, event.NodeLeft, event.NodeRejoined, event.NodeRejoined)
		w.expect("left b failed", "rejoined b")
		w.add("b", event.NodeLeft, event.NodeRemoved, event.NodeJoined)
		w.expect("left b left", "joined b")
		w.add("b", event.NodeRemoved, event.NodeFailed)
		w.add("c", event.NodeFailed)
		w.expect("left b removed")
	})
}

// A restart in place is no loss of the node, but its process ends. The event of its return is another one than that of a
// node that rejoins.
func TestCallbacksOfARestartInPlace(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		w.add("b", event.NodeJoined, event.NodeRestarting, event.NodeLeft, event.NodeRestarted)
		w.expect("joined b", "left b restarting", "rejoined b restarted")
		w.add("b", event.NodeRestarting, event.NodeRestarted, event.NodeLeft) // a fast restart, which gossip does not notice
		w.expect("left b left")
		w.add("b", event.NodeRejoined, event.NodeRestarting, event.NodeLeft, event.NodeRejoined, event.NodeLeft) // a restart that took too long
		w.expect("rejoined b", "left b restarting", "rejoined b", "left b left")
	})
}

// Each start of a rebalance has one end.
func TestCallbacksOfRebalances(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		w.ring.Add(event.Event{Kind: event.MapCommitted, Epoch: 4, Change: &event.Change{FromLog: true, Moved: 3}})
		w.addMap(event.MapProposed, 6, 0) // of a new leader
		w.addMap(event.MapCommitted, 6, 0)
		w.expect()
		w.addMap(event.MapProposed, 8, 5)
		w.addMap(event.MapAcknowledged, 8, 5)
		time.Sleep(time.Second)
		w.addMap(event.MapCommitted, 8, 5)
		w.addMap(event.MapCommitted, 8, 5)
		w.addMap(event.ShardsMoved, 8, 5)
		w.expect("started 8 join 5", "completed 8 1s false")
		w.addMap(event.MapProposed, 10, 1)
		w.addMap(event.MapAbandoned, 10, 1)
		w.addMap(event.MapProposed, 12, 2)
		w.addMap(event.MapProposed, 12, 2)
		w.addMap(event.MapProposed, 14, 3) // the end of 12 is unknown
		w.addMap(event.MapCommitted, 16, 0)
		w.expect("started 10 join 1", "completed 10 0s true", "started 12 join 2", "completed 12 0s true", "started 14 join 3", "completed 14 0s true")
		w.addMap(event.MapCommitted, 18, 7) // the start was not observed
		w.expect("started 18 join 7", "completed 18 0s false")
	})
}

func TestCallbackOfClusterHealth(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		for _, state := range []string{"initializing", "stable", "stable", "degraded"} {
			w.ring.Add(event.Event{Kind: event.ClusterStateChanged, State: state})
		}
		w.expect("health >initializing", "health initializing>stable", "health stable>degraded")
	})
}

// A callback that panics does not prevent the next one.
func TestCallbackPanicsAreRecovered(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		w.during = func(call string) {
			if call == "joined b" {
				panic("planted in a callback")
			}
		}
		for _, node := range []string{"a", "b", "c"} {
			w.add(node, event.NodeJoined)
		}
		w.expect("joined a", "joined b", "joined c")
		w.stop()
		if log := w.log.String(); !strings.Contains(log, "planted in a callback") || !strings.Contains(log, `"callback":"NodeJoined"`) || !strings.Contains(log, "callbacks_internal_test.go") {
			t.Errorf("log %s", log)
		}
	})
}

// A slow callback delays only other callbacks. If it misses events, the callbacks report the difference to the present
// state, once.
func TestSlowCallbacksSkipToThePresent(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		release := make(chan struct{})
		w.add("a", event.NodeJoined)
		w.add("b", event.NodeJoined)
		w.ring.Add(event.Event{Kind: event.ClusterStateChanged, State: "stable"})
		w.addMap(event.MapProposed, 8, 5)
		w.expect("joined a", "joined b", "health >stable", "started 8 join 5")
		w.during = func(call string) {
			if call == "joined c" {
				<-release
			}
		}
		w.add("c", event.NodeJoined)
		w.expect("joined c")
		for range 50 { // more than the ring has
			w.add("b", event.NodeFailed, event.NodeRejoined)
		}
		w.mu.Lock()
		w.view.nodes, w.view.proposed, w.view.committed, w.view.health = []string{"a", "c", "d"}, 9, 9, "degraded"
		w.mu.Unlock()
		time.Sleep(time.Minute)
		close(release)
		w.expect("left b missed", "joined d missed", "completed 8 1m0s false", "health stable>degraded")
		w.addMap(event.MapCommitted, 9, 5)                                          // the view was newer than the events
		w.ring.Add(event.Event{Kind: event.ClusterStateChanged, State: "degraded"}) // also older than the view
		w.add("d", event.NodeJoined)
		w.expect()
		w.add("b", event.NodeRejoined)
		w.addMap(event.MapProposed, 11, 1)
		w.expect("rejoined b", "started 11 join 1")
		w.stop()
		if log := w.log.String(); !strings.Contains(log, "callbacks too slow, events missed") {
			t.Errorf("log %s", log)
		}
	})
}

// When the node has stopped, the callbacks for its last events are called.
func TestLastEventsAreReportedAtTheEnd(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		w.during = func(string) { time.Sleep(time.Second) }
		w.add("a", event.NodeJoined)
		w.add("b", event.NodeJoined)
		w.expect("joined a")
		began := time.Now()
		w.stop()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("stopped after %v", took)
		}
		w.expect("joined b at the end")
	})
}

// A callback that does not return delays the end by 5 s. No further callbacks are called then.
func TestHangingCallbackDelaysTheEndForALimitedTime(t *testing.T) {
	runCallbacks(t, func(w *callbackWorld) {
		release := make(chan struct{})
		w.during = func(string) { <-release }
		w.add("a", event.NodeJoined)
		w.add("b", event.NodeJoined)
		w.expect("joined a")
		began := time.Now()
		w.stop()
		if took := time.Since(began); took != 5*time.Second || !strings.Contains(w.log.String(), "stopped before callback returned") {
			t.Errorf("stopped after %v: %s", took, w.log.String())
		}
		close(release)
		w.expect()
	})
}
