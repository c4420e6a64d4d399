package node

import (
	"shardway/proxy"
	"shardway/verdict"
)

// explain says what is the matter where requests are not served, for their clients.
func (n *Node) explain(why proxy.Reason) proxy.Explanation {
	f := n.watch.result.Load()
	e := proxy.Explanation{Led: f.inputs.Leader != "", Vain: f.noOwners}
	if i := f.first(explaining(why)); i >= 0 {
		e.Finding = f.public[i]
	}
	return e
}

// explaining returns the codes of the findings that can be why requests are held, those
// first that explain the others.
func explaining(why proxy.Reason) []verdict.Code {
	switch why {
	case proxy.ReasonNoMap:
		return []verdict.Code{verdict.NoQuorum, verdict.NoPeers, verdict.Bootstrapping, verdict.DiskStalled, verdict.NoHealthyApp, verdict.ClustersDiffer, verdict.PeerPortUnreachable, verdict.Joining, verdict.Unavailable}
	case proxy.ReasonOrphaned:
		return []verdict.Code{verdict.NoQuorum, verdict.NoHealthyApp, verdict.Unavailable}
	case proxy.ReasonPaused, proxy.ReasonNoLease:
		return []verdict.Code{verdict.NoQuorum, verdict.DiskStalled, verdict.NoPeers, verdict.DuplicateNode, verdict.NoLease}
	case proxy.ReasonMoving:
		return []verdict.Code{verdict.NoQuorum, verdict.DiskStalled, verdict.Lagging, verdict.Draining}
	case proxy.ReasonAcquiring:
		return []verdict.Code{verdict.NoQuorum, verdict.Acquiring}
	case proxy.ReasonAbsent:
		return []verdict.Code{verdict.NoQuorum, verdict.Restarting}
	case proxy.ReasonRefused, proxy.ReasonUnreachable:
	}
	return []verdict.Code{
		verdict.NoQuorum, verdict.DiskStalled, verdict.NoHealthyApp, verdict.Unavailable, verdict.NoLease, verdict.AppUnhealthy, verdict.QueueFull,
	}
}
