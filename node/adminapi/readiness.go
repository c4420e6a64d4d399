package adminapi

import (
	"shardway/admin/api"
	"shardway/diagnosis"
)

// Ready returns nil if this node is ready for requests, otherwise an *api.UnreadyError with the reason. It
// uses the same lease check as the admission of requests (Router.HasLease).
func (a *API) Ready() error {
	committed := a.options.Router.State().Committed()
	switch {
	case a.options.IsStopping() || a.options.Agent.IsLeaving():
		return a.unreadyError("draining", diagnosis.Draining)
	case a.options.IsStopRequested():
		return a.unreadyError("stopping")
	case committed.Epoch() == 0:
		return a.unreadyError("no shard map yet", diagnosis.JoinWaiting, diagnosis.NoPeers, diagnosis.Bootstrapping, diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.ClustersDiffer, diagnosis.PeerPortUnreachable, diagnosis.Joining, diagnosis.Unavailable)
	case a.options.Gateway:
		return a.gatewayReady()
	case !a.options.Router.HasLease():
		return a.noLeaseError()
	}
	isUnhealthy := a.options.Health != nil && !a.options.Health.Healthy()
	// An unhealthy node may keep its shards, and serves them if its app still accepts connections.
	if isUnhealthy && (a.options.Health.Report().Refused || !a.options.Findings().keepsShards(string(a.options.Self))) {
		return a.unreadyError("the app does not answer", diagnosis.NoHealthyApp, diagnosis.HealthPanic, diagnosis.AppUnhealthy)
	}
	if isInMap := committed.IsMember(a.options.Self); isInMap {
		return nil
	}
	if a.options.View.IsMarkedFailed() {
		return a.unreadyError("marked as failed", diagnosis.MarkedFailed)
	}
	if !a.options.View.IsDrained() {
		return a.unreadyError("joining: not in the shard map yet", diagnosis.Joining, diagnosis.NodeUnreachable)
	}
	return nil
}

// gatewayReady returns the result of Ready for a gateway, which needs neither an app nor a lease.
func (a *API) gatewayReady() error {
	_, hasNoQuorum := a.options.Findings().first(diagnosis.NoQuorum, diagnosis.NoPeers)
	if hasNoQuorum && a.options.View.Leader() == "" {
		return a.unreadyError("there is no leader", diagnosis.NoQuorum, diagnosis.NoPeers)
	}
	return nil
}

// noLeaseError returns the error that Ready reports when the node has no lease.
func (a *API) noLeaseError() error {
	if a.options.Agent.HasDuplicate() {
		return a.unreadyError("duplicate-node", diagnosis.DuplicateNode)
	}
	if a.options.View.Leader() == "" {
		return a.unreadyError("no lease, because there is no leader", diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.NoLease)
	}
	return a.unreadyError("no lease", diagnosis.NoLease)
}

// unreadyError returns an error for Ready. brief is a short form of the reason. The details come from the
// finding with the first code in codes that currently applies, if any.
func (a *API) unreadyError(brief string, codes ...diagnosis.Code) error {
	unready := &api.UnreadyError{Brief: brief}
	if finding, ok := a.options.Findings().first(codes...); ok {
		unready.Why = finding.String()
	}
	return unready
}
