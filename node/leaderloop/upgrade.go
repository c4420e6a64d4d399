package leaderloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/consensus"
	"shardway/node/logs"
	"shardway/node/membership"
)

// Upgrade returns the state of the upgrade on the leader. If finalize is true, it first puts the next level
// into force. requester is written to the log.
func (l *Leadership) Upgrade(ctx context.Context, finalize bool, requester string) (api.UpgradeState, error) {
	if finalize {
		l.Log.Info().Str("by", logs.Cut(requester)).Msg("finalization of the upgrade requested")
		err := l.reconciler.RaiseLevel(ctx, l.loopEnded)
		switch _, blocked := errors.AsType[*membership.LevelError](err); {
		case blocked || errors.Is(err, membership.ErrNotReady):
			return api.UpgradeState{}, fmt.Errorf("%w: %w", api.ErrRefused, err)
		case err != nil:
			return api.UpgradeState{}, wrapChangeError(err)
		}
	}
	level := l.reconciler.Level()
	if level == nil {
		return api.UpgradeState{}, fmt.Errorf("%w: %w", api.ErrRefused, membership.ErrNotReady)
	}
	return upgradeState(*level), nil
}

// upgradeState converts the view of the level to the form of the admin API.
func upgradeState(level leader.FormatUpgradeView) api.UpgradeState {
	state := api.UpgradeState{CurrentVersion: uint8(level.InForce), Next: uint8(level.Next), Behind: membership.DescribeBlockers(level), Nodes: make([]api.NodeUpgrade, 0, len(level.Servers))}
	if level.Next > level.InForce {
		state.Wait = timingrules.Short(level.RemainingWait.Round(time.Second))
	}
	for _, server := range level.Servers {
		state.Nodes = append(state.Nodes, api.NodeUpgrade{Node: consensus.NodeOf(server.Server), MaxFormatVersion: uint8(server.MaxVersion), HasHeartbeat: !server.Silent, BlocksUpgrade: server.BlocksUpgrade})
	}
	return state
}
