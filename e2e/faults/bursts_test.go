//go:build linux

package faults_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

var (
	bursts   = flag.String("faults.bursts", "", "how many connections come at once to one node: TestBursts runs with each (empty: it skips)")
	burstFor = flag.Duration("faults.burst-for", 8*time.Second, "how long a burst lasts")
)

const absent = "shardway_lease_absent_seconds_total"

// TestBursts prints the effect of many simultaneous connections to one node on three
// nodes with a secret. Each forwarded request needs a stream to another node. No node may
// lose its lease because of that.
func TestBursts(t *testing.T) {
	if *bursts == "" {
		t.Skip("a bench: -faults.bursts=1000,3000 runs it (make bench-faults)")
	}
	c := cluster.Start(t, cluster.Options{Binaries: build(t), Nodes: 3, Shards: shards, Dir: realDir(t), Secret: true})
	var lines []string
	for size := range strings.SplitSeq(*bursts, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		for trial := range max(*trials, 1) {
			c.AwaitServing(t)
			line := burst(t, c, n, trial)
			t.Log(line)
			lines = append(lines, line)
		}
	}
	t.Logf("cost of bursts:\n%s", strings.Join(lines, "\n"))
}

// burst opens n connections to the first node.
func burst(t *testing.T, c *cluster.Cluster, n, trial int) string {
	t.Helper()
	before := metricsOf(t, c)
	b := load.Burst(t.Context(), load.BurstOptions{
		Target: c.Nodes()[0].Addr, Conns: n, Duration: *burstFor, Timeout: 30 * time.Second,
		Keys: load.KeysIn(shards, 1, func(int) bool { return true }), Prefix: fmt.Sprintf("b%d-%d", n, trial),
	})
	after := metricsOf(t, c)
	var lost []string
	evicted := 0.0
	for i, node := range c.Nodes() {
		lost = append(lost, fmt.Sprintf("%s %.0f", node.ID, 1000*(after[i].Sum(absent)-before[i].Sum(absent))))
		evicted += after[i].Sum("shardway_peer_evicted_total") - before[i].Sum("shardway_peer_evicted_total")
	}
	times := faults.Sample(b.Latencies)
	codes := map[string]int{}
	for _, resp := range b.Failed {
		codes[fmt.Sprintf("%d %s", resp.Status, resp.Error)]++
	}
	return fmt.Sprintf("%d connections: %.0f requests a second, p50 %.0f p99 %.0f max %.0f ms, failed %v, ms without a lease: %s, handshakes evicted %.0f",
		n, float64(len(b.Latencies))/burstFor.Seconds(), ms(times.Quantile(0.5)), ms(times.Quantile(0.99)), ms(times.Quantile(1)), codes, strings.Join(lost, " "), evicted)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func metricsOf(t *testing.T, c *cluster.Cluster) []cluster.Metrics {
	t.Helper()
	var all []cluster.Metrics
	for _, node := range c.Nodes() {
		m, err := node.Metrics(t.Context())
		must(t, err)
		all = append(all, m)
	}
	return all
}
