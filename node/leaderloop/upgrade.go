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

// Upgrade returns the state of the upgrade on the leader. If raise is true, it first puts the next level into
// force. by is the requester, for the log.
func (l *Leadership) Upgrade(ctx context.Context, raise bool, by string) (api.UpgradeState, error) {
	if raise {
		l.Log.Info().Str("by", logs.Cut(by)).Msg("finalization of the upgrade requested")
		err := l.reconciler.Raise(ctx, l.done)
		switch _, blocked := errors.AsType[*membership.LevelError](err); {
		case blocked || errors.Is(err, membership.ErrNotReady):
			return api.UpgradeState{}, fmt.Errorf("%w: %w", api.ErrRefused, err)
		case err != nil:
			return api.UpgradeState{}, refusal(err)
		}
	}
	v := l.reconciler.Level()
	if v == nil {
		return api.UpgradeState{}, fmt.Errorf("%w: %w", api.ErrRefused, membership.ErrNotReady)
	}
	return levelState(*v), nil
}

// levelState converts v for the admin API.
func levelState(v leader.FormatUpgradeView) api.UpgradeState {
	s := api.UpgradeState{InForce: uint8(v.InForce), Next: uint8(v.Next), Behind: membership.DescribeBlockers(v), Nodes: make([]api.NodeUpgrade, 0, len(v.Servers))}
	if v.Next > v.InForce {
		s.Wait = timingrules.Short(v.RemainingWait.Round(time.Second))
	}
	for _, x := range v.Servers {
		s.Nodes = append(s.Nodes, api.NodeUpgrade{Node: consensus.NodeOf(x.Server), Knows: uint8(x.MaxVersion), Heard: !x.Silent, Blocks: x.BlocksUpgrade})
	}
	return s
}
