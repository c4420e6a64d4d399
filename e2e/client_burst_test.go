//go:build linux

package e2e_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// TestBurstOfConnectionsIsServed opens a thousand connections to one node at once. Once,
// that node dialed a thousand streams to the other nodes. The handshakes used up the CPU
// time, the peer ports closed the oldest handshakes, also those of heartbeats, and no
// node had a lease for most of a second. TestBursts of e2e/faults measures durations;
// this test checks that no connection is refused.
func TestBurstOfConnectionsIsServed(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Secret: true})
	burst := load.Burst(t.Context(), load.BurstOptions{
		Target: c.Nodes()[0].Addr, Conns: 400, Duration: 2 * time.Second, Timeout: 30 * time.Second,
		Keys: load.KeysIn(128, 1, func(int) bool { return true }), Prefix: "burst",
	})
	for _, resp := range burst.Failed {
		t.Errorf("%s: %d %s %s after %v", resp.ID, resp.Status, resp.Error, resp.Detail, time.Duration(resp.DoneAt()-resp.SentAt()))
	}
	for _, node := range c.Nodes() {
		m, err := node.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if evicted := m.Sum("shardway_peer_evicted_total"); evicted != 0 || !m.Has("shardway_peer_evicted_total") {
			t.Errorf("node %s closed %v handshakes to make room", node.ID, evicted)
		}
		t.Logf("node %s: %.0f ms without a lease", node.ID, 1000*m.Sum("shardway_lease_absent_seconds_total"))
	}
	t.Logf("%d requests", len(burst.Latencies))
}
