//go:build linux

package chaos

import (
	"net/url"
	"slices"

	"shardway/e2e/kit/cluster"
)

// nodeReplacement adds the spare node to the cluster under load, and then makes another node leave. The
// leaving node becomes the spare node. A later nodeReplacement adds it again with its old data, which
// must not harm the cluster.
type nodeReplacement struct {
	// killsNode selects how the node leaves: it is killed with SIGKILL and then removed with the
	// command remove. Otherwise it gets SIGTERM and leaves gracefully.
	killsNode bool
}

func (f *nodeReplacement) name() string {
	if f.killsNode {
		return "join, kill and remove"
	}
	return "join and leave"
}

func (*nodeReplacement) exclusive() {}

func (*nodeReplacement) begin(*scenario) {}

// whileActive adds the spare node to the cluster, and then kills and removes another node, or stops it gracefully.
func (f *nodeReplacement) whileActive(sc *scenario) {
	joining, leavingRole := sc.spareNode, anyNode
	if f.killsNode {
		leavingRole = follower // the leader cannot be removed
	}
	leaving := sc.pickNode(leavingRole)
	sc.tracef("%s joins", joining.ID)
	joining.Start(sc)
	sc.members = append(sc.members, joining)
	sc.awaitRecovery()
	sc.traffic.setTargets(sc.members)
	sc.awaitLoad()
	sc.members = slices.DeleteFunc(slices.Clone(sc.members), func(node *cluster.Node) bool { return node == leaving })
	sc.spareNode = leaving
	if f.killsNode {
		sc.killNode(leaving)
	} else {
		sc.tracef("%s leaves", leaving.ID)
		leaving.Stop(sc)
	}
	if f.killsNode || leaving.RestartsInPlace() {
		sc.cluster.AwaitShards(sc, sc.members...) // one of five votes belongs to that node
		sc.tracef("%s is removed", leaving.ID)
		sc.retryUntilSuccess("remove "+leaving.ID, func() error {
			return sc.members[0].TryAction(sc.Context(), "remove", url.Values{"node": {leaving.ID}})
		})
	}
	sc.traffic.setTargets(sc.members) // only now, because a real load balancer also removes a node late
	sc.awaitRecovery()
}

func (*nodeReplacement) end(*scenario) {}
