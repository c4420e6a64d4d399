package consensus_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/node/consensus"
)

// heard counts, by server, what others have said to it.
type heard struct {
	mu    sync.Mutex
	times map[string]int
}

func (h *heard) hears(o *consensus.Options) {
	server := o.ID
	o.Stated = func(string, uint64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.times[server]++
	}
}

func (h *heard) by(s *server) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.times[s.id()]
}

// The library would speak every 50 to 100 ms, and of its log every 250 to 500: 960 times a
// minute. That was most of what woke nodes without requests.
func TestALeaderAtRestSpeaksSeldom(t *testing.T) {
	h := &heard{times: map[string]int{}}
	bubble(t, abc(), h.hears, func(g *group) {
		l := g.leader(g.all...)
		for range 2 { // who follows it does as well
			time.Sleep(time.Second)
			before := map[*server]int{}
			for _, f := range without(g.all, l) {
				before[f] = h.by(f)
			}
			time.Sleep(time.Minute)
			for f, n := range before {
				if n = h.by(f) - n; n < 300 || n > 700 {
					g.t.Errorf("%s was spoken to %d times in a minute, want 560 or so", f.id(), n)
				}
			}
			if err := l.TransferTo(without(g.all, l)[0].id()); err != nil {
				g.t.Fatal(err)
			}
			l = g.leader(g.all...)
		}
	})
}

// Only who leads goes by the longer time: a leader that is gone is replaced as soon as
// before, also by who has led itself.
func TestFollowersWaitNoLonger(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		for range 3 {
			synctest.Wait()
			for _, s := range g.all {
				want := 500 * time.Millisecond
				if s == l {
					want = time.Second
				}
				if heartbeat, election := s.Timeouts(); heartbeat != want || election != want {
					g.t.Errorf("%s, leads %v: it waits %v for a leader and %v for votes, want %v", s.id(), s == l, heartbeat, election, want)
				}
			}
			if err := l.TransferTo(without(g.all, l)[0].id()); err != nil {
				g.t.Fatal(err)
			}
			l = g.leader(g.all...)
		}
	})
}

// A leader that loses its followers steps down in the time that it did before, and one that
// hears of each once in 200 ms does not.
func TestALeaderWithoutFollowersStepsDown(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		term := l.Term()
		time.Sleep(10 * time.Minute)
		if now, leads := l.Leadership(); !leads || now != term {
			g.t.Fatalf("leads %v in term %d after ten quiet minutes, want it to lead in term %d", leads, now, term)
		}
		g.net.Isolate(l.host.Name())
		if d := g.until("it steps down", func() bool { return !l.IsLeader() }); d > time.Second {
			g.t.Errorf("it led for %v without followers, want 1s at most", d)
		}
	})
}

// A candidate writes its term and its vote before it has any, its own as well. Where that took
// longer than it waits, the library threw a coin between the vote and the end of its patience,
// and a lone voter with a disk of 4 s a write stood ten times now and then.
func TestElectionsWaitForTheDisk(t *testing.T) {
	for _, c := range []struct {
		names []string
		write time.Duration
		most  uint64 // times that somebody stood
	}{
		{[]string{"a"}, time.Second, 2}, // once before the disk's pace is known
		{[]string{"a"}, 4 * time.Second, 2},
		{abc(), 900 * time.Millisecond, 15}, // they stand against each other; it used to be 60 times, and for ever
	} {
		t.Run(fmt.Sprintf("%d with %v", len(c.names), c.write), func(t *testing.T) {
			bubble(t, c.names, nil, func(g *group) {
				for range 20 {
					l := g.leader(g.all...)
					before := l.Term()
					for _, s := range g.all {
						s.mem.SetFault(func(string) error { time.Sleep(c.write); return nil })
					}
					l.crash()
					time.Sleep(c.write) // what it was writing is gone
					l.restart()
					l = g.leader(g.all...)
					if n := l.Term() - before; n > c.most {
						t.Errorf("somebody stood %d times, want %d at most", n, c.most)
					}
					for _, s := range g.all {
						s.mem.SetFault(nil)
					}
					g.until("an entry is taken", func() bool { return l.Apply([]byte("entry")) == nil })
				}
			})
		})
	}
}
