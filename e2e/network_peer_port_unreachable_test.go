//go:build linux

package e2e_test

import (
	"testing"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// TestUnreachablePeerPortIsReported starts a node that advertises a peer port without a
// listener. Gossip reaches the node, so it waits until it is added. Once no finding
// explained why it is not.
func TestUnreachablePeerPortIsReported(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	w, leader := diagnosisTest{t, c}, c.Leader(t)
	nowhere := c.Address(t)
	d := c.Add(t, "--peer-advertise", nowhere)
	w.wantFindingEverywhere(d, diagnosis.PeerPortUnreachable, " does not reach its peer port at "+nowhere+": connection refused")
	for _, n := range c.Others(d) {
		w.wantFinding(n, diagnosis.PeerPortUnreachable, "node d is not added to the cluster: node "+leader.ID+" does not reach its peer port at "+nowhere+": connection refused")
	}
	d.Kill(t)
	w.awaitHealthy(c.Running()...)
	d.Start(t, "--peer-advertise", d.Peer)
	c.AwaitServing(t)
}

// TestUnreachablePeerPortPreventsBootstrap bootstraps a cluster of three nodes, one of
// which advertises a peer port without a listener. The status of all nodes must name the
// port.
func TestUnreachablePeerPortPreventsBootstrap(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: 8})
	nowhere := c.Address(t)
	a, b, d := c.Prepare(t, "--bootstrap-expect", "3"), c.Prepare(t, "--bootstrap-expect", "3"), c.Prepare(t, "--bootstrap-expect", "3")
	c.AddJoinFlags()
	w := diagnosisTest{t, c}
	a.Start(t)
	b.Start(t)
	d.Start(t, "--peer-advertise", nowhere)
	for _, n := range []*cluster.Node{a, b} {
		w.wantFinding(n, diagnosis.PeerPortUnreachable, "the cluster is not bootstrapped: node "+n.ID+" does not reach the peer port of node "+d.ID+" at "+nowhere+": connection refused")
		w.wantFinding(n, diagnosis.Bootstrapping, "3 of the 3 nodes that must start the cluster are here (a, b and c), and have not bootstrapped it yet")
	}
	w.wantFinding(d, diagnosis.PeerPortUnreachable, " does not reach the peer port of node "+d.ID+" at "+nowhere+": connection refused")
	d.Kill(t)
	d.Start(t, "--peer-advertise", d.Peer)
	c.AwaitServedBy(t, a, b, d)
	w.awaitHealthy(a, b, d)
}
