//go:build linux

package e2e_test

import (
	"testing"

	"shardway/verdict"
)

// TestUnreachablePeerPortIsReported starts a node that advertises a peer port at which nothing
// listens. Gossip reaches the node, so it waits to be added, and nothing said why it is not.
func TestUnreachablePeerPortIsReported(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	w, leader := walk{t, c}, c.Leader(t)
	nowhere := c.Address(t)
	d := c.Add(t, "--peer-advertise", nowhere)
	w.tells(d, verdict.PeerPortUnreachable, " does not reach its peer port at "+nowhere+": connection refused")
	for _, n := range c.Others(d) {
		w.says(n, verdict.PeerPortUnreachable, "node d is not added to the cluster: node "+leader.ID+" does not reach its peer port at "+nowhere+": connection refused")
	}
	d.Kill(t)
	w.well(c.Running()...)
	d.Start(t, "--peer-advertise", d.Peer)
	c.AwaitServing(t)
}
