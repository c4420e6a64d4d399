//go:build linux

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// maxReturnTime is within what time a killed node that starts at another address must serve
// again, on a busy machine. On an idle one it takes less than 1.5 s. With gossip alone it
// took 8 to 11 s.
const maxReturnTime = 5 * time.Second

// TestKilledNodesRestartAtOtherAddresses kills nodes and restarts them with other gossip
// and peer ports, like pods: one of three, two of three, and two that exchange their
// ports.
//
//nolint:tparallel // the clusters run one after the other, because their times are judged
func TestKilledNodesRestartAtOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("secret %t", sealed), func(t *testing.T) {
			c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Shards: shards, Secret: sealed})
			for _, kill := range []int{1, 2} {
				c.AwaitServing(t)
				nodes := append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...)[3-kill:]
				checkReturn(t, c, nodes, func() {
					for _, n := range nodes {
						n.Gossip, n.Peer = c.Address(t), c.Address(t)
					}
				})
			}
			nodes := c.Others(c.Leader(t))
			checkReturn(t, c, nodes, func() {
				a, b := nodes[0], nodes[1]
				a.Gossip, b.Gossip, a.Peer, b.Peer = b.Gossip, a.Gossip, b.Peer, a.Peer
			})
		})
	}
}

// checkReturn kills nodes, moves them, and starts them again.
func checkReturn(t *testing.T, c *cluster.Cluster, nodes []*cluster.Node, move func()) {
	t.Helper()
	cluster.KillAll(t, nodes...)
	move()
	startedAt := history.Now()
	for _, node := range nodes {
		node.Start(t)
	}
	c.AwaitServing(t)
	elapsed := time.Duration(history.Now() - startedAt)
	t.Logf("%d of 3 at other addresses: all serve after %v", len(nodes), elapsed.Round(10*time.Millisecond))
	if elapsed > maxReturnTime {
		t.Errorf("%d of 3 nodes serve %v after their start at other addresses, want %v at most", len(nodes), elapsed, maxReturnTime)
	}
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, shards)
	traffic.Finish(t)
}
