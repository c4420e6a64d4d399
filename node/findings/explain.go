package findings

import (
	"shardway/diagnosis"
	"shardway/proxy/route"
)

// Explain returns the explanation for clients whose requests are not served for the given reason.
func (m *Monitor) Explain(reason route.Reason) route.Explanation {
	r := m.Result()
	e := route.Explanation{HasLeader: r.Inputs.Leader != "", Hopeless: r.NoOwners}
	if i := r.indexOfFirst(causesOf(reason)); i >= 0 {
		e.Finding = r.public[i]
	}
	return e
}

// causesOf returns the codes of the findings that can cause the given reason. A finding that causes
// other findings comes first.
func causesOf(reason route.Reason) []diagnosis.Code {
	switch reason {
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
