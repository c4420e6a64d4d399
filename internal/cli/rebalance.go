package cli

import (
	"context"

	"shardway/admin/api"
)

type rebalanceCommand struct {
	Reason string `help:"Reason for the log and the event, up to 200 bytes." required:"" placeholder:"TEXT"`
	target
}

// Help explains when the command is needed.
func (c *rebalanceCommand) Help() string {
	return `The cluster rebalances shards automatically. When nodes join, the leader waits a moment
for further nodes. This command makes the leader propose the new shard map now. A pause,
pins, cordons and weights apply as always. The command fails, with the reason, if no
shard would move, for example during a pause, or because the change is already in
progress. To see which shards would move, run: shardway plan`
}

// Run requests a new shard map.
func (c *rebalanceCommand) Run(ctx context.Context, session *session) error {
	return c.runAction(ctx, session, api.Action{Verb: api.Rebalance, Reason: c.Reason}, "the leader proposes a new shard map: shardway events shows it")
}
