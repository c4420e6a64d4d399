package adminapi

import (
	"context"

	"shardway/admin/api"
	"shardway/node/control"
	"shardway/node/leaderloop"
)

// Timing returns the timing of the cluster from the leader. If the leader does not respond within
// leaderloop.ViewTimeout, it returns the timing in the log of this node. It returns false if there is no cluster yet.
func (a *API) Timing(ctx context.Context) (api.TimingState, bool) {
	ctx, cancel := context.WithTimeout(ctx, leaderloop.ViewTimeout)
	defer cancel()
	if timing, err := a.options.Leader.ChangeTiming(ctx, api.Timing{}, ""); err == nil {
		return timing, true
	}
	replicated := a.options.View.State()
	return leaderloop.TimingState(replicated), replicated.Bootstrapped()
}

// ChangeTiming changes the timing of the cluster. Only the leader can do that; other nodes forward the request to
// the leader. requester is written to the log.
func (a *API) ChangeTiming(ctx context.Context, change api.Timing, requester string) (timing api.TimingState, err error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	return a.options.Leader.ChangeTiming(ctx, change, requester)
}
