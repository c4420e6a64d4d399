package node_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/e2e/kit/history"
	"shardway/internal/simnet"
	"shardway/node/disk"
)

// strike is a fault or event of a storm. It is drawn in proportion to its weight.
type strike struct {
	name  string
	often int
	f     func(s *storm, p *process)
}

// strikes are the faults of a storm.
var strikes = []strike{
	{"kill", 4, func(_ *storm, p *process) { p.kill() }},
	{"kill the leader", 2, func(s *storm, p *process) { s.leaderOr(p).kill() }},
	{"kill, restart at once", 3, func(s *storm, p *process) {
		p.kill()
		s.live(s.upTo(700 * time.Millisecond))
		s.revive(p)
	}},
	{"restart all", 4, func(s *storm, _ *process) { s.restartAll() }},
	{"terminate", 3, func(_ *storm, p *process) { p.stop() }},
	{"terminate several", 1, func(s *storm, _ *process) {
		for _, p := range s.running() {
			if s.r.IntN(2) == 0 {
				s.logf("  %s", p.name)
				p.stop()
			}
		}
	}},
	{"step down", 2, (*storm).stepDown},
	{"join", 1, (*storm).join},
	{"another weight", 1, (*storm).reweigh},
	{"app unhealthy", 2, func(s *storm, p *process) {
		a := s.apps[p.name]
		a.sick.Store(true)
		well := s.witness.hurt(history.AppDown, p.name)
		s.later(s.upTo(6*time.Second), func() { a.sick.Store(false); well() })
	}},

	{"isolate", 2, func(s *storm, p *process) {
		s.witness.cut(p.name)
		s.net.Partition([]string{p.name}, s.but(p.name))
	}},
	{"cut one way", 3, func(s *storm, p *process) {
		q := s.pick()
		s.logf("  towards %s", q.name)
		s.witness.cut(p.name, q.name)
		s.net.Cut(p.name, q.name)
	}},
	{"halves", 2, func(s *storm, _ *process) {
		left, right := s.split(s.names)
		s.witness.cut(s.names...)
		s.net.Partition(left, right)
	}},
	{"bridge", 2, func(s *storm, p *process) {
		left, right := s.split(s.but(p.name))
		s.witness.cut(s.names...)
		s.net.Partition(left, right)
	}},
	{"loss", 2, func(s *storm, _ *process) {
		l := simnet.Link{Latency: time.Millisecond, Jitter: 2 * time.Millisecond, Loss: 0.1 + 0.4*s.r.Float64()}
		s.logf("  of %.0f %%", 100*l.Loss)
		s.links(l)
		mended := s.witness.cut(s.names...)
		s.later(s.upTo(8*time.Second), func() { s.links(usualLink); mended() })
	}},
	{"forged resets", 3, func(s *storm, p *process) {
		q := s.pick()
		if s.r.IntN(2) == 0 {
			q = s.leaderOr(q) // its takeover setting decides when shards are taken
		}
		s.logf("  and %s", q.name)
		s.net.Reset(p.name, q.name)
		s.witness.reset(p.name, q.name)
		s.later(s.upTo(3*time.Second), s.heal)
	}},
	{"heal", 5, func(s *storm, _ *process) { s.heal() }},

	{"freeze", 3, func(s *storm, p *process) { s.freeze(p) }},
	{"freeze the leader", 1, func(s *storm, p *process) { s.freeze(s.leaderOr(p)) }},
	{"stutter", 1, func(s *storm, p *process) {
		for range 10 {
			s.freezeFor(p, 50*time.Millisecond+s.upTo(300*time.Millisecond))
			s.live(s.upTo(800 * time.Millisecond))
			s.end(true)
		}
	}},
	{"hold the log", 2, func(s *storm, p *process) {
		p.log.close()
		s.later(s.upTo(9*time.Second), p.log.open)
	}},

	{"disk hangs", 2, func(s *storm, p *process) { s.hang(p) }},
	{"leader's disk hangs", 2, func(s *storm, p *process) { s.hang(s.leaderOr(p)) }},
	{"slow disk", 1, func(s *storm, p *process) { s.slow(p) }},
	{"slow disks", 1, func(s *storm, _ *process) { s.slow(s.running()...) }},
	{"kill all, restart on slow disks", 1, func(s *storm, _ *process) {
		for _, p := range s.running() {
			p.kill()
		}
		s.restartAll()
		s.slow(s.running()...)
	}},
	{"disk breaks", 2, func(_ *storm, p *process) { p.disk.breaks() }},
	{"wiped disk", 1, (*storm).wipeDisk},
	{"old disk", 1, (*storm).oldDisk},
}

// usualLink is the link between nodes without faults.
var usualLink = simnet.Link{Latency: 200 * time.Microsecond}

// strike draws one fault and injects it.
func (s *storm) strike() {
	p := s.pick()
	if p == nil {
		s.restartAll()
		return
	}
	total, all := 0, slices.Concat(strikes, planned, keptShards)
	for _, k := range all {
		total += k.often
	}
	draw := s.r.IntN(total)
	for _, k := range all {
		if draw -= k.often; draw < 0 {
			s.logf("%s (%s)", k.name, p.name)
			s.struck[k.name]++
			k.f(s, p)
			return
		}
	}
}

// leaderOr returns the leader, or p if there is none.
func (s *storm) leaderOr(p *process) *process {
	if l := s.leader(); l != nil {
		return l
	}
	return p
}

// but returns the names of all nodes except one.
func (s *storm) but(name string) []string {
	return slices.DeleteFunc(slices.Clone(s.names), func(n string) bool { return n == name })
}

// split divides the names into two random groups.
func (s *storm) split(names []string) (left, right []string) {
	for _, i := range s.r.Perm(len(names)) {
		if len(left) <= len(right) {
			left = append(left, names[i])
		} else {
			right = append(right, names[i])
		}
	}
	return left, right
}

// links gives all pairs of nodes the same link.
func (w *world) links(l simnet.Link) {
	names := slices.Sorted(maps.Keys(w.all))
	for i, a := range names {
		for _, b := range names[i+1:] {
			w.net.SetLink(a, b, l)
		}
	}
}

// heal ends all network faults.
func (s *storm) heal() {
	s.net.Heal()
	s.links(usualLink)
	s.witness.healed()
}

// revive starts a node again whose process has ended.
func (s *storm) revive(p *process) {
	if !p.ended() {
		return
	}
	p.host.Crash()
	p.disk.well()
	if s.r.IntN(3) == 0 {
		if c, err := p.mem.Copy(); err == nil && s.old[p.name] == nil {
			s.old[p.name] = c
		}
	}
	s.logf("restart %s", p.name)
	p.restart()
}

func (s *storm) restartAll() {
	for _, n := range s.names {
		s.revive(s.all[n])
	}
}

func (s *storm) stepDown(p *process) {
	if !p.started() {
		s.logf("  not now: nobody answers there yet")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	go func() { // ends with ctx
		defer cancel()
		_ = p.node.API().Do(ctx, api.Action{Verb: api.StepDown}) // may be refused
	}()
}

// join adds a node, up to two more than the storm started with.
func (s *storm) join(*process) {
	if len(s.names) >= s.traits["a"].expect+2 {
		return
	}
	s.add(string(rune('a'+len(s.names))), trait{weight: 1, rate: 0.955 + 0.09*s.r.Float64(), expect: 1})
}

// reweigh restarts a node with another weight.
func (s *storm) reweigh(p *process) {
	p.kill()
	t := s.traits[p.name]
	t.weight = 1 + uint32(s.r.IntN(4))
	s.traits[p.name] = t
	s.revive(p)
}

func (s *storm) freeze(p *process) { s.freezeFor(p, s.upTo(8*time.Second)) }

func (s *storm) freezeFor(p *process, d time.Duration) {
	if p.frozen || p.ended() {
		return
	}
	p.freeze()
	s.later(d, p.thaw)
}

func (s *storm) hang(p *process) {
	s.logf("  for a while: %s", p.name)
	p.disk.hang()
	s.later(s.upTo(9*time.Second), p.disk.well)
}

func (s *storm) slow(all ...*process) {
	d := []time.Duration{100 * time.Millisecond, 1200 * time.Millisecond}[s.r.IntN(2)]
	s.logf("  each write takes %v", d)
	for _, p := range all {
		p.disk.slow(d)
		s.later(s.upTo(10*time.Second), func() { p.disk.slow(0) })
	}
}

// wipeDisk restarts a node with an empty data directory. More than one such loss at a time is a lost quorum, which no cluster survives.
func (s *storm) wipeDisk(p *process) {
	if !s.free() || !s.whole() {
		s.logf("  not now")
		return
	}
	p.kill()
	p.wipe()
	s.live(s.upTo(4 * time.Second))
	s.revive(p)
	delete(s.old, p.name) // the cluster has removed that disk for good, and this one was empty
}

// oldDisk restarts a node with an earlier copy of its disk. The node ends, and returns with an empty disk. One disk is missing in the meantime,
// so no other fault is injected.
func (s *storm) oldDisk(p *process) {
	old := s.old[p.name]
	if old == nil || !s.free() || !s.whole() {
		s.logf("  not now")
		return
	}
	s.end(true)
	s.heal()
	p.kill()
	rest := slices.DeleteFunc(s.owners(), func(n string) bool { return n == p.name })
	s.within(time.Minute, "the others serve without it", func() bool { return s.settled(rest...) })
	p.mem = old
	s.logf("  its disk is an old one")
	p.stale = true
	s.revive(p)
	s.within(time.Minute, "it ends", p.ended)
	if p.err == nil || !strings.Contains(p.err.Error(), disk.RemedyStale) {
		s.t.Errorf("with an old disk, %s ended with %v, want the remedy", p.name, p.err)
	}
	p.stale = false
	p.host.Crash()
	p.wipe()
	delete(s.old, p.name)
	p.restart()
	s.within(time.Minute, "it serves as a new disk", s.whole)
}
