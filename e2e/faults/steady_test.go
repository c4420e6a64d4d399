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
	s := &steady{tb: t, c: c, burner: newBurner(t)}
	s.run(3 * window / 2) // until the burner has reached its share
	s.busy, s.slowest, s.requests, s.failed = nil, nil, 0, 0
	metricsBefore, startedAt, mapBefore := s.counters(), time.Now(), c.AwaitServing(t)
	s.run(*steadyFor)
	metricsAfter, elapsed, mapAfter := s.counters(), time.Since(startedAt), c.AwaitServing(t)
	s.report(mapBefore, mapAfter, metricsBefore, metricsAfter, elapsed)
}

// steady is the load and its results.
type steady struct {
	tb     testing.TB
	c      *cluster.Cluster
	burner *burner // uses the CPU time that the nodes leave
	loads  int     // number of loads so far, one for each window

	busy             []float64 // used share of the processors in each second, from 0 to 1
	requests, failed int
	slowest          faults.Sample // duration of the slowest request of each window
}

// run loads the cluster for a duration, in adjacent windows.
func (s *steady) run(duration time.Duration) {
	s.tb.Helper()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	last, until := readCPU(s.tb), time.Now().Add(duration)
	endPrevious := func() {}
	for time.Now().Before(until) {
		endLoad := s.load()
		endPrevious()
		endPrevious = endLoad
		for windowEnd := time.Now().Add(window); time.Now().Before(windowEnd); {
			<-second.C
			now := readCPU(s.tb)
			share := now.since(last)
			last = now
			s.busy = append(s.busy, share)
			s.burner.steer(s.tb, share, *steadyCPU)
		}
	}
	endPrevious()
}

// load starts to send. The returned function ends the load and counts the responses.
func (s *steady) load() func() {
	s.loads++
	client := load.NewClient(cluster.Addrs(s.c.Nodes()), nil)
	generator := load.Start(context.WithoutCancel(s.tb.Context()), load.Options{
		Client: client, Rate: *steadyRate, Keys: load.KeysIn(shards, 1, func(int) bool { return true }),
		ModifyRequest: cluster.MixRequests, Prefix: fmt.Sprintf("s%d", s.loads), Timeout: 30 * time.Second,
	})
	return func() {
		var slowest time.Duration
		for _, resp := range generator.Stop() {
			s.requests++
			slowest = max(slowest, time.Duration(resp.DoneAt()-resp.SentAt()))
			if !resp.OK() {
				s.failed++
				printError(s.tb, "failed", resp)
			}
		}
		client.Close()
		s.slowest.Add(slowest)
	}
}

// counters returns the metrics of every node.
func (s *steady) counters() []cluster.Metrics {
	s.tb.Helper()
	var all []cluster.Metrics
	for _, node := range s.c.Nodes() {
		metrics, err := node.Metrics(s.tb.Context())
		must(s.tb, err)
		all = append(all, metrics)
	}
	return all
}

// report prints the changes between two readings, and fails the test for those that must
// not happen.
func (s *steady) report(mapBefore, mapAfter cluster.Map, before, after []cluster.Metrics, elapsed time.Duration) {
	tb := s.tb
	tb.Helper()
	sum := func(name string) (n float64) {
		for i := range after {
			n += after[i].Sum(name) - before[i].Sum(name)
		}
		return n
	}
	slices.Sort(s.busy)
	busyPercent := func(quantile float64) float64 { return 100 * s.busy[int(quantile*float64(len(s.busy)-1))] }
	excluded := sum("shardway_nodes_excluded_total")
	tb.Logf("%v at %d requests per second, CPU %.0f %% (p10 %.0f, p90 %.0f; share of the burner at the end: %.0f %%)",
		elapsed.Round(time.Second), *steadyRate, busyPercent(0.5), busyPercent(0.1), busyPercent(0.9), 100*s.burner.share)
	tb.Logf("requests %d, failed %d (target 0), queued %.0f, slowest of each %v: %v ms (median p90 max)",
		s.requests, s.failed, sum("shardway_queued_requests_total"), window, s.slowest)
	tb.Logf("false exclusions %.0f (target 0), rounds %.0f, moves %d, elections %.0f, campaigns without a leader %.0f (target: one in ten minutes), expired leases %.0f",
		excluded, sum("shardway_map_changes_total"), len(mapBefore.Moves(mapAfter)), sum("shardway_elections_won_total"), sum("shardway_campaigns_total"), sum("shardway_lease_lapses_total"))
	const absent = "shardway_lease_absent_seconds_total"
	for i, node := range s.c.Nodes() {
		seconds := after[i].Sum(absent) - before[i].Sum(absent)
		tb.Logf("node %s: %.0f ms without a lease, %.3f %% of the time (target under 1 %%)", node.ID, 1000*seconds, 100*seconds/elapsed.Seconds())
	}
	if excluded > 0 {
		tb.Errorf("%.0f nodes were excluded although none had failed", excluded)
	}
	if s.failed > 0 {
		tb.Errorf("%d requests failed", s.failed)
	}
}
