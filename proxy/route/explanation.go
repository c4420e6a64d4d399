package route

import "shardway/internal/problem"

// Explanation is the node's information about why a request is not served.
type Explanation struct {
	// Finding is a sentence for the client. Empty means that no cause is known.
	Finding string
	// HasLeader is set if the cluster has a leader.
	HasLeader bool
	// Hopeless is set if waiting is useless, because no node has an app.
	Hopeless bool
}

// Explainer returns the node's explanation for a request that waits for the given reason. nil means
// that no cause is known.
type Explainer func(reason Reason) Explanation

// explanation calls explain, unless it is nil.
func (explain Explainer) explanation(reason Reason) Explanation {
	if explain == nil {
		return Explanation{}
	}
	return explain(reason)
}

// IsHopeless reports whether it is useless for a request to wait for the given reason, because its
// shard has no owner and will get none.
func (explain Explainer) IsHopeless(reason Reason) bool {
	hasNoOwner := reason == ReasonNoMap || reason == ReasonOrphaned
	return hasNoOwner && explain.explanation(reason).Hopeless
}

// AddFinding adds the finding to an error response that the state of the cluster has caused. If
// there is a leader but no shard map, it also changes the code, because then the leader is not the
// problem.
func (explain Explainer) AddFinding(prob *problem.Problem, reason Reason) {
	if !causedByCluster(prob.Code) {
		return
	}
	explanation := explain.explanation(reason)
	prob.Finding = explanation.Finding
	leaderHasNoMap := reason == ReasonNoMap && explanation.HasLeader
	if prob.Code == problem.NoLeader && leaderHasNoMap {
		prob.Code = problem.QueueTimeout
	}
}

// causedByCluster reports whether the state of the cluster may have caused a problem.
func causedByCluster(code problem.Code) bool {
	switch code { //nolint:exhaustive // all other codes are about one request or one app
	case problem.NoLeader, problem.QueueTimeout, problem.QueueFull, problem.UpstreamRefused, problem.PeerUnreachable:
		return true
	}
	return false
}
