//go:build linux

package e2e_test

import (
	"fmt"
	"net"
	"testing"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/netns"
)

// TestDroppedPeerPortIsReported starts a node behind a packet filter that drops packets
// to its peer port, and a node behind one that also drops its packets to the peer ports
// of other nodes. Dials time out, as with most firewalls.
func TestDroppedPeerPortIsReported(t *testing.T) {
	t.Parallel()
	if err := netns.Filters(); err != nil {
		t.Skipf("no packet filters here: %v", err)
	}
	const reason = ": no answer within 1 s"
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("both directions %v", both), func(t *testing.T) {
			t.Parallel()
			network, err := netns.New(int(networks.Add(1)), 4)
			must(t, err)
			t.Cleanup(func() { must(t, network.Close()) })
			c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Shards: shards, Net: network})
			w, leader := diagnosisTest{t, c}, c.Leader(t)
			d := c.Prepare(t, "--join", leader.Gossip)
			dropped := []*cluster.Node{d}
			if both {
				dropped = c.Nodes()
			}
			for _, n := range dropped {
				_, port, err := net.SplitHostPort(n.Peer)
				must(t, err)
				must(t, network.DropPort(3, port))
			}
			d.Start(t)

			for _, n := range c.Others(d) {
				w.wantFinding(n, diagnosis.PeerPortUnreachable, "node d is not added to the cluster: node "+leader.ID+" does not reach its peer port at "+d.Peer+reason)
			}
			if both {
				w.wantFindingEverywhere(d, diagnosis.PeerPortUnreachable, "node d does not reach the peer port of node ")
				w.wantFinding(d, diagnosis.PeerPortUnreachable, reason)
			} else {
				w.wantFindingEverywhere(d, diagnosis.PeerPortUnreachable, " does not reach its peer port at "+d.Peer+reason)
			}

			must(t, network.Heal())
			for _, n := range c.Nodes() {
				n.AwaitStatus(t, "no peer port is unreachable", func(status cluster.Status) bool {
					for _, finding := range status.Findings {
						if finding.Code == diagnosis.PeerPortUnreachable {
							return false
						}
					}
					return true
				})
			}
			c.AwaitServing(t)
		})
	}
}
