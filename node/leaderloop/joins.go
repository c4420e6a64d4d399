package leaderloop

import (
	"context"
	"errors"
	"fmt"

	"shardway/ack/join"
	"shardway/admin/api"
	"shardway/node/consensus"
	"shardway/node/membership"
)

// decideJoin performs the decision of an operator about the join request of a node.
func (l *Leadership) decideJoin(ctx context.Context, action api.Action) error {
	if action.Verb == api.Refuse && action.Reason == "" {
		return fmt.Errorf("%w: reason is missing: give the reason that the node reports", api.ErrInvalid)
	}
	decision := join.Decision{Node: action.Node, Approve: action.Verb == api.Approve, Ticket: action.Ticket, Reason: action.Reason}
	err := l.reconciler.DecideJoin(ctx, decision, l.loopEnded)
	isRefused := errors.Is(err, join.ErrNoRequest) || errors.Is(err, join.ErrIsMember) || errors.Is(err, join.ErrExpired) || errors.Is(err, join.ErrRefused) || errors.Is(err, join.ErrTicket)
	switch {
	case err == nil:
		return nil
	case isRefused:
		return fmt.Errorf("%w: node %q: %w", api.ErrRefused, action.Node, err)
	case errors.Is(err, membership.ErrNotReady):
		return fmt.Errorf("%w: %w", api.ErrNotLeader, err)
	case errors.Is(err, consensus.ErrNotLeader):
		return wrapChangeError(err)
	}
	return fmt.Errorf("%w: %w: `shardway joins` shows the stage", api.ErrUnknown, err)
}
