package node_test

import (
	"maps"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/node"
	"shardway/node/gossip"
)

// moves starts a killed node again on another machine, with its disk.
func (p *process) moves() {
	p.w.note(p)
	p.host = p.w.net.Host(p.name + "-moved")
	p.run()
}

// A killed node that starts at another address is found quickly. Once, it took 8 to 11 s, because gossip keeps the old address until the
// node has been dead for long.
func TestKilledNodeIsMetAtAnotherAddress(t *testing.T) {
	t.Parallel()
	for kill := 1; kill <= 2; kill++ {
		bubble(t, func(w *world) {
			for _, name := range []string{"a", "b", "c"} {
				w.start(name)
			}
			w.untilSettled("a", "b", "c")
			w.untilVoters(3)
			w.during(func() { time.Sleep(2 * time.Second) }) // voters have exchanged greetings
			victims := []*process{w.all["b"], w.all["c"]}[:kill]
			for _, p := range victims {
				p.kill()
			}
			w.during(func() { time.Sleep(300 * time.Millisecond) })
			began := time.Now()
			for _, p := range victims {
				p.moves()
			}
			w.untilSettled("a", "b", "c")
			if took := time.Since(began); took > 1500*time.Millisecond {
				w.t.Errorf("%d of 3 at other addresses: all serve after %v", kill, took)
			}
			for _, p := range victims {
				if at := w.all["a"].node.Lookup(p.name); at != p.host.Addr(7947) {
					w.t.Errorf("%s is looked for at %s, and is at %s", p.name, at, p.host.Addr(7947))
				}
			}
		})
	}
}

// Gossip that considers a node dead keeps its address for 5 s more. In the meantime, the claims of the node are checked at intervals, not in a
// loop.
func TestClaimsOfAFailedNodeAreCheckedNowAndThen(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		log := &lines{}
		w.tune = func(o *node.Options) { o.Log = zerolog.New(log) }
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		p := w.all["b"]
		p.kill()
		w.during(func() { time.Sleep(gossip.FailureDetectionTime + 500*time.Millisecond) })
		began := time.Now()
		p.moves()
		w.untilSettled("a", "b", "c")
		took := time.Since(began)
		checks := log.count("address claim refused") + log.count("node address changed")
		if most := 2 * (1 + int(took/(500*time.Millisecond))); checks > most {
			w.t.Errorf("%d checks of claims in %v, want at most %d", checks, took, most)
		}
		w.t.Logf("it serves after %v, with %d checks", took, checks)
	})
}

// A process that announces the name and the disk of a node at another address redirects no traffic, whether the node runs or not, as long
// as it does not have that disk.
func TestUnknownProcessDoesNotRedirectANode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		b := w.all["b"]
		h := w.net.Host("stranger")
		tags := maps.Clone(b.node.GossipTags())
		tags["ep.peer"] = h.Addr(7947)
		s := w.gossiper(h, "b", h.Addr(7946), tags)
		defer func() { _ = s.Shutdown() }()
		claim := func() {
			for range 20 {
				for _, p := range w.running() {
					_, _ = s.Join([]string{p.host.Addr(7946)}, true)
				}
				w.during(func() { time.Sleep(100 * time.Millisecond) })
			}
		}
		stays := func() {
			if at := w.all["a"].node.Lookup("b"); at != b.host.Addr(7947) {
				w.t.Errorf("b is looked for at %s, and is at %s", at, b.host.Addr(7947))
			}
		}
		claim()
		stays()
		w.untilSettled("a", "b", "c")
		b.kill()
		claim()
		stays()
		b.restart()
		w.untilSettled("a", "b", "c")
	})
}

// A process with an older image of a node's disk, at another address, has the disk and no higher
// boot. Its claim of the node's address is refused.
func TestOlderImageDoesNotRedirectANode(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		log := &lines{}
		w.tune = func(o *node.Options) { o.Log = zerolog.New(log) }
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		p := w.all["b"]
		older := p.image(0)
		p.restart()
		w.untilSettled("a", "b", "c")
		w.during(func() { time.Sleep(2 * time.Second) }) // voters have exchanged greetings
		p.kill()
		p.mem = older
		p.moves()
		w.untilStale(p, "boot 2")
		if n := log.count("node address changed"); n > 0 {
			w.t.Errorf("%d claims are accepted of a process in a boot that is known", n)
		}
		if log.count("and boot 2 is known of its disk") == 0 {
			w.t.Error("no claim is refused for its boot")
		}
	})
}

// A copy of a running node's directory, started at another address, has the disk and a higher
// boot. Its claim is refused because the node answers at its own address.
func TestCopyDoesNotRedirectARunningNode(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		log := &lines{}
		w.tune = func(o *node.Options) { o.Log = zerolog.New(log) }
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		p := w.all["b"]
		mem, err := p.mem.Copy()
		if err != nil {
			w.t.Fatal(err)
		}
		c := &process{w: w, name: p.name, host: w.net.Host(p.name + "2"), mem: mem}
		c.run()
		defer c.kill()
		w.within(time.Minute, "the copy ends", c.ended)
		if n := log.count("node address changed"); n > 0 {
			w.t.Errorf("%d claims of the copy are accepted", n)
		}
		if log.count("the node answers at its known address, in boot 1") == 0 {
			w.t.Error("no claim of the copy is refused")
		}
	})
}
