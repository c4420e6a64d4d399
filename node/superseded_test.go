package node_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"shardway/internal/simnet"
	"shardway/node/clusterid"
	"shardway/peer"
)

// recovered makes a host gossip as a node of a cluster that was recovered from this one, with all its tags. It calls first with the id of
// that cluster, before it gossips.
func (w *world) recovered(h *simnet.Host, first func(cluster string)) {
	w.t.Helper()
	tags := maps.Clone(w.all["b"].node.GossipTags())
	tags["node"], tags["cluster"] = "x", clusterid.Recovered(tags["cluster"], 1<<40)
	first(tags["cluster"])
	for name := range tags {
		if strings.HasPrefix(name, "ep.") {
			tags[name] = h.Addr(7947)
		}
	}
	s := w.gossiper(h, "x", h.Addr(7946), tags)
	for _, p := range w.running() {
		_, _ = s.Join([]string{p.host.Addr(7946)}, true) // it is refused, and its message is received
	}
}

// Anyone may have recorded gossip of a cluster that was recovered from this one, and can replay it, also if that recovery was a mistake or
// a drill. A serving node asks at the announced address before it stops. Once, the gossip stopped every node that received it, for good.
func TestRecordedGossipOfARecoveryStopsNoNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		w.recovered(w.net.Host("wire"), func(string) {})
		time.Sleep(10 * time.Second)
		w.undisturbed(2 * time.Second)
	})
}

// If the node at that address confirms the recovery, all nodes stop for good.
func TestARecoveredClusterIsAsked(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		h := w.net.Host("there")
		ln, err := h.Listen(h.Addr(7947))
		if err != nil {
			w.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		served := make(chan struct{})
		defer func() { cancel(); <-served }()
		w.recovered(h, func(by string) {
			there := peer.New(peer.Options{
				Node: "x", Disk: "d", Boot: 1, Cluster: func() string { return by }, Dial: h.Dial, DiskRecords: fixedHistory{},
				Lookup: func(string) (string, bool) { return "", false },
			})
			there.Handle(peer.Control, func(_ context.Context, c *peer.Conn) { _ = c.Close() })
			go func() { defer close(served); _ = there.Serve(ctx, ln) }() // ends with ctx
		})
		for _, p := range []*process{w.all["a"], w.all["b"], w.all["c"]} {
			w.until(p.name+" stops", p.ended)
			if p.err == nil || !strings.Contains(p.err.Error(), "no longer valid") {
				w.t.Errorf("%s stopped with %v", p.name, p.err)
			}
			if _, err := p.mem.Open(p.name); err == nil {
				w.t.Errorf("the directory of %s can be used again", p.name)
			}
		}
	})
}
