//go:build linux

package chaos

import (
	"net/url"
	"slices"

	"shardway/e2e/kit/cluster"
)

// join starts the spare node, and makes another node leave under load: by SIGTERM, or by
// kill -9 and the command remove. The node that left becomes the spare node.
type join struct {
	remove bool
}

func (f *join) name() string {
	if f.remove {
		return "join, kill and remove"
	}
	return "join and leave"
}

func (*join) exclusive() {}

func (*join) begin(*scenario) {}

func (f *join) during(sc *scenario) {
	joining, leavingRole := sc.spare, anyNode
	if f.remove {
		leavingRole = follower // the leader cannot be removed
	}
	leaving := sc.pick(leavingRole)
	sc.tracef("%s joins", joining.ID)
	joining.Start(sc)
	sc.members = append(sc.members, joining)
	sc.awaitRecovery()
	sc.traffic.setTargets(sc.members)
	sc.awaitLoad()
	sc.members = slices.DeleteFunc(slices.Clone(sc.members), func(n *cluster.Node) bool { return n == leaving })
	sc.spare = leaving
	if f.remove {
		sc.kill(leaving)
	} else {
		sc.tracef("%s leaves", leaving.ID)
		leaving.Stop(sc)
	}
	if f.remove || leaving.Holds() {
		sc.c.AwaitShards(sc, sc.members...) // one of five votes belongs to that node
		sc.tracef("%s is removed", leaving.ID)
		sc.retry("remove "+leaving.ID, func() error {
			return sc.members[0].Try(sc.Context(), "remove", url.Values{"node": {leaving.ID}})
		})
	}
	sc.traffic.setTargets(sc.members) // after the wait, since a load balancer reacts late
	sc.awaitRecovery()
}

func (*join) end(*scenario) {}
