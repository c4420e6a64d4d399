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

// forger starts a Serf member with the given name and address on a host and joins the first node. Its messages are replays of what that
// name once sent, or could have sent: memberlist accepts a repeated message.
func (w *world) forger(h *simnet.Host, name, addr string, tags map[string]string) *serf.Serf {
	w.t.Helper()
	s := w.gossiper(h, name, addr, tags)
	if _, err := s.Join([]string{w.all["a"].host.Addr(7946)}, true); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// gossiper starts the same member as forger, without joining.
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

// elsewhere is a transport that announces the address of another node.
type elsewhere struct {
	memberlist.NodeAwareTransport
	addr string
}

// FinalAdvertiseAddr returns the announced address.
func (e elsewhere) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	a, err := netip.ParseAddrPort(e.addr)
	return a.Addr().AsSlice(), int(a.Port()), err
}

// undisturbed checks for a while that the servers, the votes and the addresses of the nodes stay the same.
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

// A replayed message of a node, from when it had another disk, changes nothing. Once, such a message removed the node's server although the
// node was running, and added a server that does not exist.
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
				tags["zone"] = strconv.Itoa(i) // repeated, and refuted by its owner again
				_ = s.SetTags(tags)            // only the arrival matters
				w.undisturbed(2 * time.Second)
			}
		})
	}
}

// A forged leave message removes neither the server nor the address of a node that still communicates.
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
