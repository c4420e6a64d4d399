package node

import (
	"shardway/diagnosis"
	"shardway/proxy"
	"shardway/proxy/route"
)

// explain returns the explanation for clients whose requests are not served for the reason why.
func (n *Node) explain(why route.Reason) proxy.Explanation {
	f := n.watch.result.Load()
	e := proxy.Explanation{HasLeader: f.inputs.Leader != "", Hopeless: f.noOwners}
	if i := f.first(explaining(why)); i >= 0 {
		e.Finding = f.public[i]
	}
	return e
}

// explaining returns the codes of the findings that can cause the reason why. A finding that is the cause
// of other ones comes first.
func explaining(why route.Reason) []diagnosis.Code {
	switch why {
	case route.ReasonNoMap:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.NoPeers, diagnosis.Bootstrapping, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.ClustersDiffer, diagnosis.PeerPortUnreachable, diagnosis.Joining, diagnosis.Unavailable}
	case route.ReasonOrphaned:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.NoHealthyApp, diagnosis.Unavailable}
	case route.ReasonPaused, route.ReasonNoLease:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.DuplicateNode, diagnosis.NoLease}
	case route.ReasonMoving:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.Lagging, diagnosis.Draining}
	case route.ReasonAcquiring:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.Acquiring}
	case route.ReasonRestarting:
		return []diagnosis.Code{diagnosis.NoQuorum, diagnosis.Restarting}
	case route.ReasonRefused, route.ReasonUnreachable:
	}
	return []diagnosis.Code{
		diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.Unavailable, diagnosis.NoLease, diagnosis.AppUnhealthy, diagnosis.QueueFull,
	}
}
