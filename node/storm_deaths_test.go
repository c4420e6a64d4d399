package node_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/ack"
	"shardway/e2e/kit/history"
	"shardway/shardmap"
)

// A failing node first cuts its clients off and ends later, when its disk may work again. Lost requests are excused from the cut on, not
// earlier.
func TestWitnessDatesADeathFromTheCut(t *testing.T) {
	for _, c := range []struct {
		name    string
		leaving bool
		killed  bool // at 3 s
		failed  bool
		lost    time.Duration // when the client's connection breaks; the cut is at 2 s
		excused bool
	}{
		{name: "before the cut", failed: true, lost: 1900 * time.Millisecond},
		{name: "by the cut", failed: true, lost: 2 * time.Second, excused: true},
		{name: "by the cut, while it left", failed: true, leaving: true, lost: 2 * time.Second, excused: true},
		{name: "by the cut, before it was killed", failed: true, killed: true, lost: 2 * time.Second, excused: true},
		{name: "before the cut, and it was killed", failed: true, killed: true, lost: 1900 * time.Millisecond},
		{name: "by a node that left as it should", leaving: true, lost: 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWitness(ack.TakeoverLease)
				sent := now()
				mended := w.hurt(history.DiskFault, "a")
				if c.leaving {
					w.fails("a", history.Terminated)
				}
				time.Sleep(c.lost)
				w.answered(history.Response{
					ID: "1", Key: "k", Method: "GET",
					Attempts: []history.Attempt{{Target: "a", Sent: sent, Done: now(), Err: "EOF"}},
				})
				time.Sleep(2*time.Second - c.lost)
				w.closes("a")
				time.Sleep(time.Second)
				if c.killed {
					w.fails("a", history.Killed)
				}
				mended()
				time.Sleep(time.Second)
				w.ended("a", c.failed)
				if lost := w.judge().Count(history.Lost); (lost == 0) != c.excused {
					t.Errorf("%d lost, want excused: %v", lost, c.excused)
				}
			})
		})
	}
}

// A frozen process that is asked to end stays frozen, and a process that is frozen while it leaves continues to leave afterwards.
func TestWitnessKnowsAStopFromALeave(t *testing.T) {
	for name, first := range map[string]string{"asked while it stands still": "freeze", "stands still while it leaves": "ask"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				s := newStorm(w, 1, ack.TakeoverTimeout)
				s.raise(3)
				p := w.follower()
				if first == "ask" {
					p.stop()
				}
				p.freeze()
				if first == "freeze" {
					p.stop()
				}
				began := now()
				time.Sleep(time.Second)
				p.thaw()
				kinds := map[history.FaultKind]history.Fault{}
				w.witness.mu.Lock()
				defer w.witness.mu.Unlock()
				for _, f := range w.witness.h.Faults {
					if f.Node == p.name && f.Kind != history.LogDelayed {
						kinds[f.Kind] = f
					}
				}
				if f := kinds[history.Paused]; f.Until != now() {
					w.t.Errorf("it stood still until %v, want %v", time.Duration(f.Until), time.Duration(now()))
				}
				if f := kinds[history.Terminated]; f.Until != 0 || f.From <= began {
					w.t.Errorf("it leaves from %v to %v, want since it goes on", time.Duration(f.From), time.Duration(f.Until))
				}
			})
		})
	}
}

// A process that is asked to end before it serves resets the clients that wait at its listener, also if it is frozen before its end,
// continues, or is asked again and serves by then. Once, the storm considered such a process only stopped, or leaving, and reported its
// lost requests as violations.
func TestWitnessKnowsADeathThatIsHeldUp(t *testing.T) {
	for name, then := range map[string][]history.FaultKind{
		"stands still, and is killed": {history.Paused, history.Killed},
		"stands still, and goes on":   {history.Paused, history.Terminated},
		"is asked again":              {history.Terminated},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWitness(ack.TakeoverLease)
				w.fails("a", history.Killed)
				time.Sleep(time.Second)
				sent := now()
				time.Sleep(time.Second)
				w.answered(history.Response{
					ID: "1", Key: "k", Method: "GET",
					Attempts: []history.Attempt{{Target: "a", Sent: sent, Done: now(), Err: "connection reset"}},
				})
				for _, k := range then {
					w.fails("a", k)
					time.Sleep(time.Second)
				}
				w.ended("a", false)
				if lost := w.judge().Count(history.Lost); lost != 0 {
					t.Errorf("%d lost, want it excused", lost)
				}
			})
		})
	}
}

// A map whose only witnesses died before the storm observed it counts as committed at that time, not when the log shows it later: faults
// that were injected by then may be long over.
func TestWitnessSeesTheMapOfTheDead(t *testing.T) {
	bubble(t, func(w *world) {
		s := newStorm(w, 1, ack.TakeoverLease)
		s.load = 0
		s.raise(3)
		s.add("d", newcomer)
		before := s.committed().Epoch()
		for s.committed().Epoch() == before {
			time.Sleep(100 * time.Microsecond) // without an observation
		}
		next := s.committed().Epoch()
		for _, p := range s.running() {
			p.kill()
		}
		died := now()
		s.restartAll()
		s.calm()
		for _, m := range s.witness.h.Maps {
			if m.Epoch == uint64(next) && m.At <= died {
				return
			}
		}
		w.t.Errorf("map %d was not seen by %v, when all that knew it died", next, time.Duration(died))
	})
}

// A process that is asked to end while it is frozen learns of that when it continues: it serves the clients that wait at its listener.
// Once, the simulated process began to end immediately, closed the listener, and reset those clients.
func TestStoppedProcessEndsWhenItGoesOn(t *testing.T) {
	bubble(t, func(w *world) {
		s := newStorm(w, 1, ack.TakeoverTimeout)
		s.raise(3)
		p := w.follower()
		p.freeze()
		var lost atomic.Int32
		for sh := range shardmap.Shard(20) {
			s.c.send(p, sh, http.MethodGet, 0, func(a history.Response) {
				if a.Status == 0 {
					lost.Add(1)
				}
			})
		}
		p.stop()
		time.Sleep(5 * time.Second)
		p.thaw()
		s.load = 0
		s.within(patience, "all are answered", func() bool { return s.c.wait.Load() == 0 })
		if n := lost.Load(); n != 0 {
			w.t.Errorf("%d of 20 have no answer", n)
		}
		s.within(time.Minute, "it ends", p.ended)
	})
}

// A joining node has a vote once a leader has given it one, and not while there is no leader.
func TestWitnessKnowsWhenANodeVotes(t *testing.T) {
	bubble(t, func(w *world) {
		s := newStorm(w, 1, ack.TakeoverLease)
		s.load = 0
		s.raise(3)
		s.witness.mu.Lock()
		if n := len(s.witness.h.VoterSince); n != 0 {
			w.t.Errorf("%d nodes have joined, want none: they founded the cluster", n)
		}
		s.witness.mu.Unlock()
		w.all["b"].kill()
		w.all["c"].kill()
		s.add("d", newcomer)
		s.live(5 * time.Second)
		back := now()
		if at := s.witness.h.VoterSince["d"]; at <= back {
			w.t.Errorf("it votes since %v, and nobody could give it a vote", time.Duration(at))
		}
		s.restartAll()
		s.until("all are there", s.whole)
		if at := s.witness.h.VoterSince["d"]; at <= back || at > now() {
			w.t.Errorf("it votes since %v, want a time from %v to %v", time.Duration(at), time.Duration(back), time.Duration(now()))
		}
	})
}
