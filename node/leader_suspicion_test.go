package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"shardway/node"
	"shardway/shardmap"
)

// hanging describes a cluster whose leader may hang: its number of nodes, and how many are gateways.
type hanging struct {
	name            string
	nodes, gateways int
}

func hangings() []hanging {
	return []hanging{{"3 nodes", 3, 0}, {"5 nodes", 5, 0}, {"2 nodes and a gateway", 2, 1}, {"3 nodes and 2 gateways", 3, 2}}
}

// play starts the cluster, whose nodes all vote, waits until it serves, and runs f.
func (h hanging) play(t *testing.T, f func(w *world)) {
	t.Helper()
	bubble(t, func(w *world) {
		w.writes = 2 * time.Millisecond
		gateway := map[string]bool{}
		w.tune = func(o *node.Options) {
			name := o.Dir.Node()
			w.all[name].runsBy(o, newClock(1))
			if gateway[name] {
				o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil
			}
		}
		var owners []string
		for i := range h.nodes + h.gateways {
			name := string(rune('a' + i))
			if gateway[name] = i >= h.nodes; !gateway[name] {
				owners = append(owners, name)
			}
			w.start(name)
		}
		w.untilSettled(owners...)
		w.untilVoters(h.nodes + h.gateways)
		time.Sleep(time.Second)
		f(w)
		w.untilSettled(owners...)
	})
}

// hang makes a leader hang in one of four ways. end lets it continue.
func (w *world) hang(p *process, how string) (end func()) {
	cut := func(to, from bool) {
		for _, n := range w.others(p) {
			if to {
				w.net.Cut(n, p.name)
			}
			if from {
				w.net.Cut(p.name, n)
			}
		}
	}
	switch how {
	case "stopped":
		p.freeze()
		return p.thaw
	case "isolated":
		cut(true, true)
	case "deaf":
		cut(true, false)
	case "mute":
		cut(false, true)
	}
	return w.net.Heal
}

// A leader that hangs breaks no connection, and Raft's timeout is longer than a lease. The other nodes replace it before their leases
// expire. Once, the requests of all other nodes waited for 0.85 s.
func TestLeaderThatHangsIsReplacedBeforeLeasesEnd(t *testing.T) {
	t.Parallel()
	for _, h := range hangings() {
		for _, how := range []string{"stopped", "isolated", "deaf", "mute"} {
			t.Run(h.name+", "+how, func(t *testing.T) {
				t.Parallel()
				for i := range share(8, 2) {
					h.play(t, func(w *world) { w.replaces(how, time.Duration(i)*13*time.Millisecond) })
				}
			})
		}
	}
}

// replaces hangs the leader after some time, and checks that no other node loses its lease.
func (w *world) replaces(how string, after time.Duration) {
	w.t.Helper()
	time.Sleep(after)
	old, before, began := w.leader(), w.committed(), time.Now()
	leased := map[*process]bool{}
	for _, n := range w.others(old) {
		leased[w.all[n]] = w.all[n].node.Leased()
	}
	end := w.hang(old, how)
	var elected time.Duration
	for time.Since(began) < 700*time.Millisecond {
		w.moment()
		for p, was := range leased {
			if was && !p.node.Leased() {
				w.t.Fatalf("%s has no lease %v after the leader hangs", p.name, time.Since(began))
			}
			if elected == 0 && p.node.Leads() {
				elected = time.Since(began)
			}
		}
	}
	if elected == 0 || elected > 300*time.Millisecond {
		w.t.Errorf("another leads after %v, want it before leases end", elected)
	}
	end()
	w.until("the old one follows", func() bool { return !old.node.Leads() && w.leader() != nil })
	w.until("nothing is open", func() bool { return !w.leader().node.State().HasOpenProposal() })
	if moves := shardmap.Diff(before, w.leader().node.State().Committed()); len(moves) != 0 {
		w.t.Errorf("%d shards moved because a leader hung for less than dead-after", len(moves))
	}
}

// The leases that a leader leaves when it hangs must last until its successor grants new ones, about 200 ms later. Once, of five voters
// that sent their heartbeats nearly together, the first always got a lease from echoes 100 ms old, with 195 ms left at its next heartbeat.
func TestNoLeaseIsMuchShorterThanOthers(t *testing.T) {
	t.Parallel()
	for _, h := range hangings() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			for range share(4, 2) {
				h.play(t, func(w *world) {
					time.Sleep(2 * time.Second)
					for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(time.Millisecond) {
						for _, p := range w.all {
							if left := p.node.LeaseLeft(); !p.node.Leads() && left > 0 && left < 240*time.Millisecond {
								w.t.Fatalf("%s has %v of its lease left", p.name, left)
							}
						}
					}
				})
			}
		})
	}
}

// A leader that is slow for a moment costs at most one term.
func TestFalseSuspicionMovesAndPausesNothing(t *testing.T) {
	t.Parallel()
	for _, h := range hangings()[:2] {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			h.play(t, func(w *world) {
				before := w.committed()
				for i := range 8 {
					slow := w.leader()
					rest := w.others(slow)
					slow.freeze()
					hangs, thawed := time.Duration(40+20*i)*time.Millisecond, false
					for began := time.Now(); time.Since(began) < 2*time.Second; {
						if !thawed && time.Since(began) >= hangs {
							slow.thaw()
							thawed = true
						}
						w.moment()
						if i := slices.IndexFunc(rest, func(n string) bool { return !w.all[n].node.Leased() }); i >= 0 {
							w.t.Fatalf("%s has no lease %v after %s stopped for %v", rest[i], time.Since(began), slow.name, hangs)
						}
						for _, n := range rest {
							if !w.all[n].node.Routes() {
								w.t.Fatalf("%s holds shards because %s stopped for %v", n, slow.name, hangs)
							}
						}
					}
				}
				if moves := shardmap.Diff(before, w.committed()); len(moves) != 0 {
					w.t.Errorf("%d shards moved", len(moves))
				}
			})
		})
	}
}

// A leader that was replaced and responds soon afterwards was not dead: its voters wait longer before they suspect the next leader.
// Otherwise each pause of a busy machine would cost a term.
func TestLeadersThatAreOftenSlowAreReplacedSeldom(t *testing.T) {
	t.Parallel()
	for _, h := range hangings()[:2] {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			h.play(t, func(w *world) {
				const pauses, pause = 12, 150 * time.Millisecond // within one minute
				before := w.leader().node.Term()
				for range pauses {
					slow := w.leader()
					slow.freeze()
					time.Sleep(pause)
					slow.thaw()
					time.Sleep(2 * time.Second)
					w.until("somebody leads", func() bool { return w.leader() != nil })
				}
				if n := w.leader().node.Term() - before; n < 1 || n > 3 {
					w.t.Errorf("%d elections as leaders paused %d times for %v, want one or two", n, pauses, pause)
				}
			})
		})
	}
}

// A leader that was gone for longer says nothing about the speed of the machines: the next leader that hangs is replaced as quickly.
func TestALeaderThatWasGoneCostsNoPatience(t *testing.T) {
	t.Parallel()
	for _, h := range hangings()[:2] {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			h.play(t, func(w *world) {
				for i := range 4 {
					old, began := w.leader(), time.Now()
					rest := w.others(old)
					old.freeze()
					w.until("another leads", func() bool {
						return slices.ContainsFunc(rest, func(n string) bool { return w.all[n].node.Leads() })
					})
					if took := time.Since(began); took > 300*time.Millisecond {
						w.t.Errorf("leader %d was replaced after %v, want it before leases end", i+1, took)
					}
					time.Sleep(3 * time.Second)
					old.thaw()
					w.until("the old one follows", func() bool { return !old.node.Leads() && w.leader() != nil })
					time.Sleep(2 * time.Second)
				}
			})
		})
	}
}

// A node that is cut off from the leader only, or from all nodes, elects no leader.
func TestOneNodeThatMissesTheLeaderElectsNone(t *testing.T) {
	t.Parallel()
	for _, h := range hangings()[:2] {
		for _, alone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, from all: %v", h.name, alone), func(t *testing.T) {
				t.Parallel()
				h.play(t, func(w *world) {
					leader, p := w.leader(), w.follower()
					term := leader.node.Term()
					if alone {
						w.net.Isolate(p.name)
					} else {
						w.net.Cut(leader.name, p.name)
						w.net.Cut(p.name, leader.name)
					}
					for began := time.Now(); time.Since(began) < 400*time.Millisecond; {
						w.moment()
						if w.leader() != leader || leader.node.Term() != term {
							w.t.Fatalf("an election because %s alone misses the leader", p.name)
						}
					}
					w.net.Heal()
				})
			})
		}
	}
}

// Voters with slow disks campaign one after the other. Once, with disks of 70 ms, the next voter did not learn of a campaign in time,
// because an election needs three writes. The votes were split, and leases were missing for a second.
func TestVotersWithSlowDisksStandOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for _, write := range []time.Duration{20 * time.Millisecond, 70 * time.Millisecond, 150 * time.Millisecond} {
		for _, h := range hangings()[:2] {
			t.Run(fmt.Sprintf("%v, %s", write, h.name), func(t *testing.T) {
				t.Parallel()
				for i := range share(6, 2) {
					h.play(t, func(w *world) {
						for _, p := range w.all {
							p.disk.slow(write)
						}
						time.Sleep(time.Second + time.Duration(i)*17*time.Millisecond)
						old, rest, began := w.leader(), w.others(w.leader()), time.Now()
						term := old.node.Term()
						old.freeze()
						w.until("another leads", func() bool {
							return slices.ContainsFunc(rest, func(n string) bool { return w.all[n].node.Leads() })
						})
						if took, most := time.Since(began), 350*time.Millisecond+3*write; took > most {
							t.Errorf("another leads after %v, want it within %v", took, most)
						}
						time.Sleep(2 * time.Second)
						for _, n := range rest {
							if now := w.all[n].node.Term(); now != term+1 {
								t.Errorf("%s is in term %d, want %d", n, now, term+1)
							}
							w.all[n].disk.slow(0)
						}
						old.disk.slow(0)
						old.thaw()
					})
				}
			})
		}
	}
}
