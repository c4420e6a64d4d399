//go:build linux

package chaos

import (
	"net/url"
	"slices"

	"shardway/e2e/kit/cluster"
)

// join has the node that stands by join, and another leave under load, by SIGTERM
// or by kill -9 and the operator's removal. Who left stands by.
type join struct {
	remove bool
}

func (f *join) name() string {
	if f.remove {
		return "join, kill and remove"
	}
	return "join and leave"
}

func (*join) alone() {}

func (*join) begin(*world) {}

func (f *join) during(w *world) {
	joining, who := w.spare, anybody
	if f.remove {
		who = follower // nobody removes the leader
	}
	leaving := w.pick(who)
	w.note("%s joins", joining.ID)
	joining.Start(w)
	w.members = append(w.members, joining)
	w.recover()
	w.traffic.aim(w.members)
	w.flow()
	w.members = slices.DeleteFunc(slices.Clone(w.members), func(n *cluster.Node) bool { return n == leaving })
	w.spare = leaving
	if f.remove {
		w.kill(leaving)
	} else {
		w.note("%s leaves", leaving.ID)
		leaving.Stop(w)
	}
	if f.remove || leaving.Holds() {
		w.c.AwaitShards(w, w.members...) // one of five votes is that node's
		w.note("%s is removed", leaving.ID)
		w.retry("remove "+leaving.ID, func() error {
			return w.members[0].Try(w.Context(), "remove", url.Values{"node": {leaving.ID}})
		})
	}
	w.traffic.aim(w.members) // not before: a balancer takes its time
	w.recover()
}

func (*join) end(*world) {}
