//go:build linux

package e2e_test

import (
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// BenchmarkColdStart measures the time from the start of three processes with empty
// directories until all three serve. `make bench-faults` measures the effects of faults.
func BenchmarkColdStart(b *testing.B) {
	var took faults.Sample
	for b.Loop() {
		c := cluster.New(b, cluster.Options{Binaries: binaries(b), Shards: shards, Dir: b.TempDir()})
		for range 3 {
			c.Prepare(b, "--bootstrap-expect", "3")
		}
		c.AddJoinFlags()
		startedAt := history.Now()
		for _, node := range c.Nodes() {
			node.Start(b)
		}
		c.AwaitShards(b, c.Nodes()...)
		took.Add(time.Duration(history.Now() - startedAt))
		for _, node := range c.Nodes() {
			node.Kill(b)
		}
	}
	for name, q := range map[string]float64{"median": 0.5, "p90": 0.9, "max": 1} {
		b.ReportMetric(float64(took.Quantile(q))/float64(time.Millisecond), "serving-"+name+"-ms")
	}
	b.ReportMetric(0, "ns/op")
}
