package consensus_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/node/consensus"
)

// termCounter counts the messages that each server has received from others.
type termCounter struct {
	mu    sync.Mutex
	times map[string]int
}

func (h *termCounter) countTerms(o *consensus.Options) {
	server := o.ID
	o.OnTerm = func(string, uint64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.times[server]++
	}
}

func (h *termCounter) by(s *server) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.times[s.id()]
}

// An idle leader sends heartbeats rarely. The library would send one every 50 to 100 ms, and its commit index as often: 1 600 messages a
// minute, which was most of what woke idle nodes.
func TestIdleLeaderSendsFewHeartbeats(t *testing.T) {
	h := &termCounter{times: map[string]int{}}
	bubble(t, abc(), h.countTerms, func(g *group) {
		l := g.leader(g.all...)
		for range 2 { // the second time after a transfer of leadership
			time.Sleep(time.Second)
			before := map[*server]int{}
			for _, f := range without(g.all, l) {
				before[f] = h.by(f)
			}
			time.Sleep(time.Minute)
			for f, n := range before {
				if n = h.by(f) - n; n < 200 || n > 400 {
					g.t.Errorf("%s was spoken to %d times in a minute, want 280 or so", f.id(), n)
				}
			}
			if err := l.TransferTo(without(g.all, l)[0].id()); err != nil {
				g.t.Fatal(err)
			}
			l = g.leader(g.all...)
		}
	})
}

// Only a leader uses the longer timeout: a dead leader is replaced as soon as before, also by a server that has led itself.
func TestFollowersWaitNoLonger(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		for range 3 {
			synctest.Wait()
			for _, s := range g.all {
				want := 500 * time.Millisecond
				if s == l {
					want = 3 * time.Second / 2
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

// A leader that loses its followers steps down as soon as before. A leader that receives a response of each follower once in 200 ms does
// not.
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

// slow makes every write of these servers take the given time.
func slow(write time.Duration, all ...*server) {
	for _, s := range all {
		s.mem.SetStoreFault(func(string) error { time.Sleep(write); return nil })
	}
}

// A candidate writes its term and its own vote before it has any vote. Once, if that took longer than its timeout, it was random whether
// the vote or the timeout came first, and a lone voter with a disk of 4 s per write sometimes campaigned ten times.
func TestALoneVoterWaitsForItsDisk(t *testing.T) {
	for _, write := range []time.Duration{time.Second, 4 * time.Second} {
		t.Run(write.String(), func(t *testing.T) {
			bubble(t, []string{"a"}, nil, func(g *group) {
				a := g.all[0]
				for range 20 {
					before := g.leader(a).Term()
					slow(write, a)
					a.crash()
					time.Sleep(write) // its pending write is lost
					a.restart()
					if n := g.leader(a).Term() - before; n > 2 { // one more, before the speed of the disk is known
						t.Errorf("it stood %d times, want 2 at most", n)
					}
					a.mem.SetStoreFault(nil)
					g.until("an entry is taken", func() bool { return a.Apply([]byte("entry")) == nil })
				}
			})
		})
	}
}

// Elections succeed with slow disks. Once, no server became leader if the write of a vote took longer than candidates waited, or than the
// timeout of a message: on disks of 0.9 s per write, of 0.5 s if one of them was fast, and always on disks of 1 s.
func TestElectionsWaitForSlowDisks(t *testing.T) {
	for _, write := range []time.Duration{400 * time.Millisecond, 900 * time.Millisecond, 1900 * time.Millisecond} {
		for name, quick := range map[string]int{"all": 0, "two of three": 1} {
			t.Run(fmt.Sprintf("%v, %s", write, name), func(t *testing.T) {
				bubble(t, abc(), nil, func(g *group) {
					for range 10 {
						l := g.leader(g.all...)
						slow(write, append(without(g.all, l)[quick:], l)...)
						l.crash()
						time.Sleep(write)
						l.restart()
						g.leader(g.all...) // within two minutes
						for _, s := range g.all {
							s.mem.SetStoreFault(nil)
						}
						g.until("an entry is taken", func() bool { return g.leader(g.all...).Apply([]byte("entry")) == nil })
					}
				})
			})
		}
	}
}

// A disk that was slow once does not extend the timeout of the next election. Otherwise a candidate would wait as long for rejected
// pre-votes.
func TestLongDiskTimeoutEndsWhenALeaderIsElected(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		slow(time.Second, g.all...)
		l.crash()
		time.Sleep(time.Second)
		l.restart()
		g.leader(g.all...)
		synctest.Wait()
		for _, s := range g.all {
			want := 500 * time.Millisecond
			if s.IsLeader() {
				want = 3 * time.Second / 2
			}
			if _, election := s.Timeouts(); election != want {
				t.Errorf("%s waits %v for votes, want %v", s.id(), election, want)
			}
		}
	})
}
