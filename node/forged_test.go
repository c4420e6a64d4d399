package node_test

import (
	"io"
	"log"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"shardway/internal/simnet"
)

// forger starts a Serf member of the given name on a host, that says it is at addr
// and joins the first node. What it tells is what was once told by that
// name, or could have been: memberlist takes a message whenever it comes again.
func (w *world) forger(h *simnet.Host, name, addr string, tags map[string]string) *serf.Serf {
	w.t.Helper()
	s := w.gossiper(h, name, addr, tags)
	if _, err := s.Join([]string{w.all["a"].host.Addr(7946)}, true); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// gossiper is forger that joins nobody.
func (w *world) gossiper(h *simnet.Host, name, addr string, tags map[string]string) *serf.Serf {
	w.t.Helper()
	tr, err := h.Transport(7946)
	if err != nil {
		w.t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	mc := memberlist.DefaultLANConfig()
	mc.Transport, mc.Logger = elsewhere{tr, addr}, quiet
	c := serf.DefaultConfig()
	c.NodeName, c.Tags, c.MemberlistConfig, c.Logger = name, tags, mc, quiet
	c.EnableNameConflictResolution = false
	s, err := serf.Create(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// elsewhere is a transport that says it is at another's address.
type elsewhere struct {
	memberlist.NodeAwareTransport
	addr string
}

// FinalAdvertiseAddr returns that address.
func (e elsewhere) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	a, err := netip.ParseAddrPort(e.addr)
	return a.Addr().AsSlice(), int(a.Port()), err
}

// undisturbed looks on for a while at what must stay as it is: servers, votes, and
// where everybody is.
func (w *world) undisturbed(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); w.moment() {
		for _, p := range w.running() {
			if got := p.node.Servers(); len(got) != len(w.names) {
				w.t.Fatalf("servers at %s: %v, want %v", p.name, got, w.names)
			}
			for _, m := range p.node.API().Map().Nodes {
				if m.HTTP == "" {
					w.t.Fatalf("%s does not know where %s is any more", p.name, m.ID)
				}
			}
		}
	}
	w.untilVoters(len(w.names))
	w.untilSettled(w.names...)
}

// An old word of a node's, from when it had another disk, had its server removed
// although it spoke, and another one added that nobody is.
func TestReplayedDiskRemovesNoServer(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		three(t, func(w *world) {
			w.untilVoters(3)
			p := w.voter(leads)
			tags := maps.Clone(p.node.GossipTags())
			tags["disk"] = "the-old-one"
			s := w.forger(w.net.Host("forger"), p.name, p.host.Addr(7946), tags)
			for i := range 5 {
				tags["zone"] = strconv.Itoa(i) // told anew, and refuted by its owner again
				_ = s.SetTags(tags)            // what counts is what arrives
				w.undisturbed(2 * time.Second)
			}
		})
	}
}

// A word that a node leaves takes its server out no more than it takes its address
// away, while it speaks.
func TestForgedLeaveRemovesNoServer(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		h := w.net.Host("forger")
		s := w.forger(h, "x", h.Addr(7946), nil)
		for range share(3, 1) {
			for _, p := range slices.Clone(w.running()) {
				if err := s.RemoveFailedNode(p.name); err != nil {
					w.t.Fatal(err)
				}
				w.undisturbed(3 * time.Second)
			}
		}
	})
}
