//go:build linux

package chaos

import (
	"net/url"
	"slices"

	"shardway/e2e/kit/cluster"
)

// join adds the spare node to the cluster under load, and then makes another node leave.
// That node leaves after SIGTERM, or with remove after kill -9 and the command remove. It
// becomes the spare node, which a later join adds again with its old data.
type join struct {
	removes bool
}

func (f *join) name() string {
	if f.removes {
		return "join, kill and remove"
	}
	return "join and leave"
}

func (*join) exclusive() {}

func (*join) begin(*scenario) {}

// whileActive adds the spare node to the cluster, and then removes another node or stops it in an orderly way. That node
// becomes the spare node.
func (f *join) whileActive(sc *scenario) {
	joining, leavingRole := sc.spareNode, anyNode
	if f.removes {
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
	if f.removes {
		sc.killNode(leaving)
	} else {
		sc.tracef("%s leaves", leaving.ID)
		leaving.Stop(sc)
	}
	if f.removes || leaving.RestartsInPlace() {
		sc.cluster.AwaitShards(sc, sc.members...) // one of five votes belongs to that node
		sc.tracef("%s is removed", leaving.ID)
		sc.retryUntilSuccess("remove "+leaving.ID, func() error {
			return sc.members[0].TryAction(sc.Context(), "remove", url.Values{"node": {leaving.ID}})
		})
	}
	sc.traffic.setTargets(sc.members) // only now, because a real load balancer also removes a node late
	sc.awaitRecovery()
}

func (*join) end(*scenario) {}
