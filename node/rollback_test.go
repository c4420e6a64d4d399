package node_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/node/disk"
)

// image kills p and returns the contents of its disk, as a volume snapshot does. The original has boots more boots.
func (p *process) image(boots int) *disk.Memory {
	p.w.t.Helper()
	p.kill()
	m, err := p.mem.Copy()
	if err != nil {
		p.w.t.Fatal(err)
	}
	for range boots {
		d, err := m.Open("")
		if err != nil {
			p.w.t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			p.w.t.Fatal(err)
		}
	}
	return m
}

// untilStale waits until p, whose disk was put back, has ended for that reason without a lease. p does not start with that disk again.
func (w *world) untilStale(p *process, what string) {
	w.t.Helper()
	w.within(time.Minute, p.name+" ends", func() bool {
		if !p.ended() && p.started() && p.node.Leased() {
			w.t.Fatalf("%s has a lease with a disk that is not what it was", p.name)
		}
		return p.ended()
	})
	p.host.Crash()
	for _, text := range []string{what, "older image of itself or a copy", disk.RemedyStale} {
		if p.err == nil || !strings.Contains(p.err.Error(), text) {
			w.t.Errorf("%s ended with %v, want %q in it", p.name, p.err, text)
		}
	}
	if d, err := p.mem.Open(p.name); err == nil || !strings.Contains(err.Error(), what) {
		w.t.Errorf("%s is opened again: %v, %v, want it refused with %q", p.name, d, err, what)
	}
}

// grow adds a node, which causes a new map.
func (s *storm) grow(name string) {
	s.t.Helper()
	s.add(name, newcomer)
	s.until(name+" serves", s.whole)
}

// A node whose disk was put back to an older image stops, and returns with an empty disk. Once, it served again after it had caught up,
// although its newer votes and acknowledgements were lost. A high boot number does not help it, however often the image was started: then
// the term or the log shows the age.
func TestNodeWithAnOlderImageStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		boots  int
		leader bool // another node has led since
		what   string
	}{
		{0, false, "another process was its boot 2"},
		{1, false, "its log ends at"},
		{3, true, "it was in term"},
	} {
		t.Run(strconv.Itoa(c.boots), func(t *testing.T) {
			t.Parallel()
			loaded(t, 3, func(s *storm) {
				p := s.follower()
				old := p.image(c.boots)
				s.revive(p)
				s.until("it is back", s.whole)
				if c.leader {
					l := s.leader()
					s.stepDown(l)
					s.until("another leads", func() bool { return s.leader() != nil && s.leader() != l && s.whole() })
				}
				s.grow("d")
				time.Sleep(10 * time.Second) // all nodes have exchanged greetings
				p.kill()
				p.mem, p.stale = old, true
				rest := s.others(p)
				s.until("the others serve", func() bool { return s.settled(rest...) })
				p.restart()
				s.untilStale(p, c.what)
				if !s.settled(rest...) {
					s.t.Error("the others took notice")
				}
				p.wipe()
				p.stale = false
				p.restart()
				s.until("it serves as a new disk", s.whole)
			})
		})
	}
}

// The node that knows the disk of b is not the leader, and there is no leader: c lacks the newest maps, and b had them and was put back to
// an older image. The vote of b would elect c, and ownership epochs would decrease. c has stored what b reported when they exchanged
// greetings.
func TestVoterWithAnOlderImageElectsNoLeaderWithoutTheNewestMaps(t *testing.T) {
	t.Parallel()
	for _, forgets := range []string{"c goes on", "c is started again"} {
		t.Run(forgets, func(t *testing.T) {
			t.Parallel()
			three(t, func(w *world) {
				w.untilVoters(3)
				a := w.leader()
				rest := w.others(a)
				b, c := w.all[rest[0]], w.all[rest[1]]
				before := b.image(9)
				b.restart()
				w.untilSettled("a", "b", "c")
				w.net.Partition([]string{a.name}, []string{c.name})
				w.until("c is dropped", func() bool { return w.settled(a.name, b.name) })
				time.Sleep(5 * time.Second) // b and c exchange greetings
				least := a.node.State().Committed().Epoch()
				if e := c.node.State().Committed().Epoch(); e >= least {
					w.t.Fatalf("c has map %d, want it to lack map %d", e, least)
				}
				a.kill()
				b.kill()
				if forgets != "c goes on" {
					c.kill()
					c.restart()
				}
				w.net.Heal()
				b.mem = before
				b.restart()
				w.untilStale(b, "its log ends at")
				a.restart()
				w.until("a and c serve", func() bool { return w.settled(a.name, c.name) })
				b.wipe()
				b.restart()
				w.untilSettled("a", "b", "c")
				if w.newest.Epoch() <= least {
					w.t.Errorf("map %d after map %d", w.newest.Epoch(), least)
				}
			})
		})
	}
}

// A copy of a node's data directory starts elsewhere while the node runs. The node continues, and a node that met the copy first still
// follows the original when it leads.
func TestCopyStartedElsewhereDoesNotOustTheNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		mem, err := p.mem.Copy()
		if err != nil {
			w.t.Fatal(err)
		}
		c := &process{w: w, name: p.name, host: w.net.Host(p.name + "2"), mem: mem}
		c.run()
		defer c.kill()
		w.within(time.Minute, "the copy ends", func() bool {
			if !c.ended() && c.started() && c.node.Leased() {
				w.t.Fatal("the copy has a lease")
			}
			return c.ended()
		})
		if c.err == nil || !strings.Contains(c.err.Error(), "duplicate-node") {
			w.t.Errorf("the copy ended with %v, want it to be told of the node", c.err)
		}
		for range 6 {
			if l := w.leader(); l != p {
				ctx := w.t.Context()
				if err := l.node.API().Do(ctx, stepDown); err != nil {
					w.t.Fatal(err)
				}
				w.until("another leads", func() bool { n := w.leader(); return n != nil && n != l })
			}
			w.untilSettled("a", "b", "c")
			if w.leader() == p {
				return
			}
		}
		w.t.Errorf("%s was never elected", p.name)
	})
}

// Two processes start with the same directory, both as its next boot. The cluster accepts the first, and the other one stops.
func TestSecondProcessOfABootStops(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		p := w.follower()
		twin := p.image(0)
		p.restart()
		w.untilSettled("a", "b", "c")
		p.terminate()
		w.until("the others serve", func() bool { return w.settled(w.others(p)...) })
		p.mem = twin
		p.restart()
		w.untilStale(p, "boot 2")
	})
}

// Records of other disks do not prevent stops and starts of a cluster, all nodes at once or one by one, after kills and in order.
func TestRestartsAreNoRollbacks(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		for range 3 {
			for _, p := range w.running() {
				p.kill()
			}
			for _, n := range w.names {
				w.all[n].restart()
			}
			w.untilSettled("a", "b", "c")
			for _, n := range w.names {
				p := w.all[n]
				if p.node.Leads() {
					p.kill()
				} else {
					p.terminate()
				}
				p.restart()
				w.untilSettled("a", "b", "c")
			}
		}
		// A follower learns of a new process of another follower within about a second.
		for _, n := range w.names {
			for _, o := range w.others(w.all[n]) {
				w.until("all know the last process of all", func() bool { return w.all[n].node.Knows(w.all[o].node.Server()).Boot >= 7 })
			}
		}
		for _, n := range w.names {
			p := w.all[n]
			p.terminate()
			d, err := p.mem.Open("")
			if err != nil {
				w.t.Fatal(err)
			}
			known, err := d.DiskRecords()
			if err != nil || len(known) != 2 {
				w.t.Errorf("%s knows of %+v, %v, want both others", n, known, err)
			}
			for _, k := range known {
				if k.Boot < 7 || k.Term == 0 || k.Applied == 0 {
					w.t.Errorf("%s knows %+v", n, k)
				}
			}
			_ = d.Close()
			p.restart()
		}
	})
}

// A node that learns during its stop that its disk is an older image must not start with that disk again: it would count boots that no
// other node misses.
func TestOlderImageIsRefusedAlsoWhenTheNodeWasStopping(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		old := p.image(0)
		p.restart()
		w.untilSettled("a", "b", "c")
		p.kill()
		w.until("the others serve", func() bool { return w.settled(w.others(p)...) })
		told := 0
		for after := time.Duration(0); after < 2*time.Second; after += 20 * time.Millisecond {
			m, err := old.Copy()
			if err != nil {
				w.t.Fatal(err)
			}
			p.mem = m
			p.restart()
			time.Sleep(after)
			p.terminate()
			if p.err == nil {
				continue
			}
			told++
			if _, err := p.mem.Open(p.name); err == nil || !strings.Contains(err.Error(), disk.RemedyStale) {
				w.t.Fatalf("stopped after %v it ended with %v, and is opened again: %v", after, p.err, err)
			}
			if after > time.Second {
				break
			}
		}
		if told == 0 {
			w.t.Error("it was never told: the test shows nothing")
		}
	})
}
