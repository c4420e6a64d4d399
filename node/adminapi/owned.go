package adminapi

import (
	"context"

	"shardway/admin/api"
	"shardway/node/leaderloop"
)

// Held returns the shards that the app of this node holds, and how long the app may write. For an app with
// hooks, the shards are those that the app has acquired; for other apps, they follow from the map and the
// lease.
func (a *API) Held(ctx context.Context) (api.OwnedList, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderloop.ViewTimeout)
	defer cancel()
	held, err := a.options.Agent.Owned(ctx)
	if err != nil {
		return api.OwnedList{}, err
	}
	held.MayWriteMS = a.options.WriteTimeLeft(ctx).Milliseconds()
	return held, nil
}
