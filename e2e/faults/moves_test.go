//go:build linux

package faults_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

const (
	// moveShards is the number of shards of these clusters, with one key each. They are
	// so few that each key gets a request every moveShards/moveRate, 20 ms, and queueing
	// is rarely missed between two requests.
	moveShards = 32
	moveRate   = 1600
)

// TestMoves prints how long a shard that moves by plan gets no response: without hooks,
// with hooks without delay, and with a release and an acquire of 20 ms each. A trial
// drains a follower and ends the drain.
func TestMoves(t *testing.T) {
	if *trials == 0 {
		t.Skip("a bench: -faults.trials=20 runs it (make bench-faults)")
	}
	bin := build(t)
	var lines []string
	for _, hooks := range []string{"", "0s", "20ms"} {
		t.Run("hooks "+hooks, func(t *testing.T) { lines = append(lines, moves(t, bin, hooks)) })
	}
	t.Logf("how long a shard is held that moves by plan:\n%s", strings.Join(lines, "\n"))
}

// moves runs the trials with hooks of this duration; "" means no hooks.
func moves(t *testing.T, bin cluster.Binaries, hooks string) string {
	t.Helper()
	opts := cluster.Options{Binaries: bin, Nodes: 3, Shards: moveShards, Dir: realDir(t)}
	if hooks != "" {
		dir, err := cluster.Scratch()
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		opts.Flags, opts.AppFlags = []string{"--hooks", "/_state"}, []string{"--state", dir}
	}
	c := cluster.Start(t, opts)
	var own time.Duration
	for _, node := range c.Nodes() {
		if hooks == "" {
			break
		}
		for _, hook := range []string{"release", "acquire"} {
			node.App.SetHookFault(t, hook, "slow:"+hooks)
		}
		d, err := time.ParseDuration(hooks)
		must(t, err)
		own = 2 * d
	}
	var moved, stayed faults.Sample
	failed := 0
	for i := range *trials {
		m, s, f := drain(t, c, i)
		moved, stayed, failed = append(moved, m...), append(stayed, s...), failed+f
	}
	name := "no hooks"
	if hooks != "" {
		name = "hooks of " + hooks
	}
	return fmt.Sprintf("%-14s %d moves: p50 %.1f p99 %.1f max %.1f ms, of which %.0f are the hooks'; keys that stayed p99 %.1f ms; failed %d",
		name, len(moved), ms(moved.Quantile(0.5)), ms(moved.Quantile(0.99)), ms(moved.Quantile(1)), ms(own), ms(stayed.Quantile(0.99)), failed)
}

// drain drains a follower and ends the drain, under load on all nodes. It returns the
// longest time without a response for each key.
func drain(t *testing.T, c *cluster.Cluster, trial int) (moved, stayed faults.Sample, failed int) {
	t.Helper()
	was := c.AwaitServing(t)
	victim := c.Follower(t)
	otherNodes := c.Others(victim)
	for i, step := range []string{"drain", "uncordon"} {
		client := load.NewClient(cluster.Addrs(c.Nodes()), nil)
		generator := load.Start(t.Context(), load.Options{
			Client: client, Rate: moveRate, Prefix: fmt.Sprintf("m%d-%d", trial, i), Timeout: 30 * time.Second,
			Keys: load.KeysIn(moveShards, 1, func(int) bool { return true }), RetryFailed: true,
		})
		awaitStarted(t, generator, before)
		otherNodes[0].PerformAction(t, step, map[string][]string{"node": {victim.ID}})
		now := c.AwaitShards(t, [][]*cluster.Node{otherNodes, c.Nodes()}[i]...)
		awaitStarted(t, generator, after)
		responses := generator.Stop()
		client.Close()
		for _, resp := range responses {
			if !resp.OK() && !strings.Contains(resp.ID, load.RetryMark) {
				failed++
				printError(t, "failed", resp)
			}
		}
		for key, d := range faults.Unanswered(responses) {
			if was.OwnerOf(key) != now.OwnerOf(key) {
				moved.Add(d)
			} else {
				stayed.Add(d)
			}
		}
		was = now
	}
	return moved, stayed, failed
}
