//go:build linux

package faults_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// slowRate is the number of requests per second: each key gets one every 40 ms.
const slowRate = 800

var slowFor = flag.Duration("faults.slow", 15*time.Second, "how long the slow request of TestSlowRequests runs")

// TestSlowRequests prints how long keys get no response when shards move by plan while
// each app runs one slow request. A trial drains a follower and ends the drain, stops it
// and starts it again, and lets a new node join. Keys of a shard with a slow request do
// not count.
func TestSlowRequests(t *testing.T) {
	if *trials == 0 {
		t.Skip("a bench: -faults.trials=20 runs it (make bench-faults)")
	}
	c := cluster.Start(t, cluster.Options{Binaries: build(t), Nodes: 3, Shards: moveShards, Dir: realDir(t), Flags: strings.Fields(*more)})
	s := &slowMoves{t: t, c: c, moved: map[string]*faults.Sample{}, stayed: map[string]*faults.Sample{}, cut: map[string]int{}, failed: map[string]int{}}
	steps := []string{"drain", "uncordon", "SIGTERM", "join"}
	for range *trials {
		victim := c.Follower(t)
		otherNodes := c.Others(victim)
		s.step(steps[0], otherNodes, func() { otherNodes[0].PerformAction(t, "drain", map[string][]string{"node": {victim.ID}}) }, otherNodes)
		s.step(steps[1], otherNodes, func() { otherNodes[0].PerformAction(t, "uncordon", map[string][]string{"node": {victim.ID}}) }, c.Nodes())
		s.step(steps[2], otherNodes, func() { victim.Terminate(t) }, otherNodes)
		victim.AwaitExit(t, 0)
		s.step(steps[3], otherNodes, func() { victim.Start(t) }, c.Nodes())
	}
	var lines []string
	for _, name := range steps {
		m, stayed := *s.moved[name], *s.stayed[name]
		lines = append(lines, fmt.Sprintf("%-9s %d moves: p50 %.1f p99 %.1f max %.1f ms; keys that stayed p99 %.1f ms; failed %d, slow requests cut %d of %d",
			name, len(m), ms(m.Quantile(0.5)), ms(m.Quantile(0.99)), ms(m.Quantile(1)), ms(stayed.Quantile(0.99)), s.failed[name], s.cut[name], s.slow))
	}
	t.Logf("how long other keys that move go unanswered, with one request of %v at each app:\n%s", *slowFor, strings.Join(lines, "\n"))
}

// slowMoves are the results of the trials, by step.
type slowMoves struct {
	t             *testing.T
	c             *cluster.Cluster
	trial         int
	slow          int // slow requests in total, by step
	moved, stayed map[string]*faults.Sample
	cut, failed   map[string]int
}

// step measures one planned change. Clients send to the nodes in to. owners are the nodes
// that own shards at the end.
func (s *slowMoves) step(name string, to []*cluster.Node, begin func(), owners []*cluster.Node) {
	t, c := s.t, s.c
	t.Helper()
	s.trial++
	var was cluster.Map
	cluster.Await(t, "the map is even", func() (err error) {
		if was, err = to[0].Map(t.Context()); err == nil && !was.IsBalanced() {
			err = fmt.Errorf("counts %v", was.Counts())
		}
		return err
	})
	client := load.NewClient(cluster.Addrs(to), nil)
	defer client.Close()
	generator := load.Start(t.Context(), load.Options{
		Client: client, Rate: slowRate, Prefix: fmt.Sprintf("s%d", s.trial), Timeout: 60 * time.Second,
		Keys: load.KeysIn(moveShards, 1, func(int) bool { return true }), RetryFailed: true,
	})
	awaitStarted(t, generator, before)
	busy := map[int]bool{}
	var slow []*cluster.AsyncRequest
	for id := range was.Counts() {
		key := was.Keys(id, 1)[0]
		busy[load.ShardOf(key, was.Shards)] = true
		slow = append(slow, c.SendAsync(t, to[0], load.Request{Key: key, Header: map[string]string{"App-Delay": slowFor.String()}}))
	}
	awaitStarted(t, generator, before)
	begin()
	now := c.AwaitShards(t, owners...)
	awaitStarted(t, generator, after)
	responses := generator.Stop()
	for _, resp := range responses {
		if !resp.OK() && !strings.Contains(resp.ID, load.RetryMark) {
			s.failed[name]++
			printError(t, "failed", resp)
		}
	}
	for _, request := range slow {
		if resp := request.Response(t); !resp.OK() {
			s.cut[name]++
		}
	}
	if name == "drain" {
		s.slow += len(slow)
	}
	if s.moved[name] == nil {
		s.moved[name], s.stayed[name] = &faults.Sample{}, &faults.Sample{}
	}
	for key, d := range faults.Unanswered(responses) {
		switch {
		case busy[load.ShardOf(key, was.Shards)]:
		case was.OwnerOf(key) != now.OwnerOf(key):
			s.moved[name].Add(d)
		default:
			s.stayed[name].Add(d)
		}
	}
}
