package cli

import (
	"context"

	"shardway/admin/api"
)

type rebalanceCommand struct {
	Reason string `help:"Reason for the log and the events, up to 200 bytes." required:"" placeholder:"TEXT"`
	target
}

// Help explains when the command is needed.
func (c *rebalanceCommand) Help() string {
	return `The cluster rebalances shards automatically. This command makes the leader propose a
new shard map now. The map has a new epoch even if no shard moves, and every node
acknowledges it. A pause, pins, cordons and weights apply as always. To see which
shards would move, run: shardway plan`
}

// Run requests a new shard map.
func (c *rebalanceCommand) Run(ctx context.Context, session *session) error {
	return c.runAction(ctx, session, api.Action{Verb: api.Rebalance, Reason: c.Reason}, "the leader proposes a new shard map: shardway events shows it")
}
