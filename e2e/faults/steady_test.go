//go:build linux

package faults_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

var (
	steadyFor  = flag.Duration("steady.for", 0, "how long TestSteady loads the machine (0: it skips)")
	steadyRate = flag.Int("steady.rate", 1200, "requests per second; a burner uses the remaining CPU time")
	steadyCPU  = flag.Float64("steady.cpu", 0.9, "share of all cores that is to be busy")
)

// window is how long one load generator runs, which limits the memory of its responses.
const window = 10 * time.Second

// TestSteady loads three nodes without a fault while the machine has hardly any free CPU
// time. It prints the effects, and fails if a node was excluded or a request failed.
func TestSteady(t *testing.T) {
	if *steadyFor == 0 {
		t.Skip("a bench: -steady.for=10m runs it (make bench-steady)")
	}
	c := cluster.Start(t, cluster.Options{Binaries: build(t), Nodes: 3, Shards: shards, Dir: realDir(t)})
	t.Logf("floor, median p90 max ms: %v", measureFloor(t, c))
	y := &steady{tb: t, c: c, burner: newBurner(t)}
	y.run(3 * window / 2) // until the burner has reached its share
	y.busy, y.slowest, y.requests, y.failed = nil, nil, 0, 0
	before, startedAt, was := y.counters(), time.Now(), c.AwaitServing(t)
	y.run(*steadyFor)
	after, elapsed, is := y.counters(), time.Since(startedAt), c.AwaitServing(t)
	y.report(was, is, before, after, elapsed)
}

// steady is the load and its results.
type steady struct {
	tb     testing.TB
	c      *cluster.Cluster
	burner *burner
	loads  int

	busy             []float64 // share of the cores, second by second
	requests, failed int
	slowest          faults.Sample // request of each window
}

// run loads the cluster for a while, in adjacent windows.
func (y *steady) run(maximum time.Duration) {
	y.tb.Helper()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	last, until := readCPU(y.tb), time.Now().Add(maximum)
	end := func() {}
	for time.Now().Before(until) {
		next := y.load()
		end()
		end = next
		for over := time.Now().Add(window); time.Now().Before(over); {
			<-second.C
			now := readCPU(y.tb)
			share := now.since(last)
			last = now
			y.busy = append(y.busy, share)
			y.burner.steer(y.tb, share, *steadyCPU)
		}
	}
	end()
}

// load starts to send. The returned function ends the load and counts the responses.
func (y *steady) load() func() {
	y.loads++
	client := load.NewClient(cluster.Addrs(y.c.Nodes()), nil)
	generator := load.Start(context.WithoutCancel(y.tb.Context()), load.Options{
		Client: client, Rate: *steadyRate, Keys: load.KeysIn(shards, 1, func(int) bool { return true }),
		ModifyRequest: cluster.MixRequests, Prefix: fmt.Sprintf("s%d", y.loads), Timeout: 30 * time.Second,
	})
	return func() {
		var maximum time.Duration
		for _, resp := range generator.Stop() {
			y.requests++
			maximum = max(maximum, time.Duration(resp.Done()-resp.Sent()))
			if !resp.OK() {
				y.failed++
				printError(y.tb, "failed", resp)
			}
		}
		client.Close()
		y.slowest.Add(maximum)
	}
}

// counters returns the metrics of every node.
func (y *steady) counters() []cluster.Metrics {
	y.tb.Helper()
	var all []cluster.Metrics
	for _, node := range y.c.Nodes() {
		m, err := node.Metrics(y.tb.Context())
		must(y.tb, err)
		all = append(all, m)
	}
	return all
}

// report prints the changes between two readings, and fails the test for those that must
// not happen.
func (y *steady) report(was, is cluster.Map, before, after []cluster.Metrics, elapsed time.Duration) {
	tb := y.tb
	tb.Helper()
	sum := func(name string) (n float64) {
		for i := range after {
			n += after[i].Sum(name) - before[i].Sum(name)
		}
		return n
	}
	slices.Sort(y.busy)
	at := func(q float64) float64 { return 100 * y.busy[int(q*float64(len(y.busy)-1))] }
	drops := sum("shardway_nodes_excluded_total")
	tb.Logf("%v at %d requests a second, CPU %.0f %% (p10 %.0f, p90 %.0f; the burner's share at the end: %.0f %%)",
		elapsed.Round(time.Second), *steadyRate, at(0.5), at(0.1), at(0.9), 100*y.burner.share)
	tb.Logf("requests %d, failed %d (target 0), held %.0f, slowest of each %v: %v ms (median p90 max)",
		y.requests, y.failed, sum("shardway_queued_requests_total"), window, y.slowest)
	tb.Logf("false drops %.0f (target 0), rounds %.0f, moves %d, elections %.0f, stood because the leader was missed %.0f (target: one in ten minutes), leases lapsed %.0f",
		drops, sum("shardway_map_changes_total"), len(was.Moves(is)), sum("shardway_elections_won_total"), sum("shardway_campaigns_total"), sum("shardway_lease_lapses_total"))
	const absent = "shardway_lease_absent_seconds_total"
	for i, node := range y.c.Nodes() {
		d := after[i].Sum(absent) - before[i].Sum(absent)
		tb.Logf("node %s: %.0f ms without a lease, %.3f %% of the time (target under 1 %%)", node.ID, 1000*d, 100*d/elapsed.Seconds())
	}
	if drops > 0 {
		tb.Errorf("%.0f nodes were dropped and none had failed", drops)
	}
	if y.failed > 0 {
		tb.Errorf("%d requests failed", y.failed)
	}
}
