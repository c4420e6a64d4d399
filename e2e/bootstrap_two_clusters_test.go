//go:build linux

package e2e_test

import (
	"testing"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// TestNodeJoinsNeitherOfTwoClusters starts a node whose --join contains addresses of two
// clusters. Such a node once joined the cluster that responded first. It must join
// neither, its finding must name both, and both clusters must continue to serve.
func TestNodeJoinsNeitherOfTwoClusters(t *testing.T) {
	t.Parallel()
	opts := cluster.Options{Binaries: binaries(t), Shards: shards}
	c, other := cluster.New(t, opts), cluster.New(t, opts)
	a, _, d := c.Prepare(t), c.Prepare(t), c.Prepare(t)
	other.Prepare(t) // not started, since the nodes need different IDs
	b := other.Prepare(t)
	a.Start(t)
	b.Start(t)
	ids := map[*cluster.Node]string{}
	for _, n := range []*cluster.Node{a, b} {
		n.AwaitStatus(t, "it serves", func(s cluster.Status) bool {
			ids[n] = s.Cluster
			return s.State == "operational" && s.Shards.Owned == shards
		})
	}
	d.Start(t, "--join", a.Gossip, "--join", b.Gossip)
	w := diagnosisTest{t, c}
	w.wantFindingEverywhere(d, diagnosis.ClustersDiffer, "node c joins no cluster, because its join addresses belong to two: ")
	for _, n := range []*cluster.Node{a, b} {
		w.wantFinding(d, diagnosis.ClustersDiffer, n.Gossip+" (node "+n.ID+") to cluster "+ids[n])
		s, err := n.Status(t.Context())
		if err != nil || s.State != "operational" || s.Cluster != ids[n] || s.Shards.Owned != shards || s.Member("c").Voter {
			t.Errorf("node %s: %+v %v, want it to own all shards of cluster %s alone", n.ID, s, err, ids[n])
		}
		if status, body := w.get(n.Addr, "/"); status != 200 {
			t.Errorf("node %s responds %d %s", n.ID, status, body)
		}
	}
	if s, err := d.Status(t.Context()); err != nil || s.Cluster != "" {
		t.Errorf("node c is in cluster %q (%v)", s.Cluster, err)
	}
	d.Kill(t)
	d.Wipe(t)
	d.Start(t, "--join", a.Gossip)
	c.AwaitServing(t)
}
