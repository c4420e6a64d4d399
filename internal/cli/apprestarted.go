package cli

import (
	"context"

	"shardway/admin/api"
)

type appRestartedCommand struct {
	Node string `arg:"" optional:"" help:"Id of the node; else the one that is asked."`
	target
}

// Help explains when the command is needed.
func (c *appRestartedCommand) Help() string {
	return `A shard that has left an app without hooks returns to it only after the app has
restarted. A node notices a restart by refused connections, or by another
Shardway-App-Instance header in the response to its health check. Run this command after
a restart that neither of them shows. Every shard may then return to the app.`
}

// Run reports the restart.
func (c *appRestartedCommand) Run(ctx context.Context, s *session) error {
	if c.Node == "" {
		client, err := c.client(s)
		if err != nil {
			return err
		}
		defer client.Close()
		status, err := client.Status(ctx)
		if err != nil {
			return err
		}
		c.Node = status.Node
	}
	return c.runAction(ctx, s, api.Action{Verb: api.AppRestarted, Node: c.Node}, "the app of node "+c.Node+" counts as restarted: every shard may return to it")
}
