//go:build linux

package e2e_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// A thousand connections that came to one node at once made it dial a thousand
// streams to the others. Handshakes took the machine, the peer ports closed the
// oldest of them, those of heartbeats too, and no node had a lease for most of a
// second. What that costs in time, TestBursts of e2e/faults tells; here nothing may
// be turned away.
func TestBurstOfConnectionsIsServed(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Secret: true})
	b := load.Burst(t.Context(), load.BurstOptions{
		Target: c.Nodes()[0].Addr, Conns: 400, For: 2 * time.Second, Timeout: 30 * time.Second,
		Keys: load.KeysIn(128, 1, func(int) bool { return true }), Prefix: "burst",
	})
	for _, a := range b.Failed {
		t.Errorf("%s: %d %s %s after %v", a.ID, a.Status, a.Error, a.Detail, time.Duration(a.Done()-a.Sent()))
	}
	for _, n := range c.Nodes() {
		m, err := n.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if evicted := m.Sum("shardway_peer_evicted_total"); evicted != 0 || !m.Has("shardway_peer_evicted_total") {
			t.Errorf("node %s closed %v handshakes to make room", n.ID, evicted)
		}
		t.Logf("node %s: %.0f ms without a lease", n.ID, 1000*m.Sum("shardway_lease_absent_seconds_total"))
	}
	t.Logf("%d requests", len(b.Times))
}
