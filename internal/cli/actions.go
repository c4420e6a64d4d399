package cli

import (
	"context"
	"fmt"

	"shardway/admin/api"
)

type stepDownCommand struct {
	To string `help:"Voter that becomes leader; if another node becomes leader, the command fails and names that node." placeholder:"NODE"`
	reasonFlag
	target
}

// Help explains the effect and the refusals.
func (c *stepDownCommand) Help() string {
	return `The leader transfers its leadership to another voter that has the newest map. No
shard moves, and no request fails. With --to, only that voter is asked; the
leader refuses a node that is not a voter, that is not reachable, or that leads
already. "shardway nodes" shows the leader and the voters.`
}

// Run makes the leader transfer its leadership.
func (c *stepDownCommand) Run(ctx context.Context, session *session) error {
	success := "the leader has handed over"
	if c.To != "" {
		success = "node " + c.To + " leads"
	}
	return c.runAction(ctx, session, api.Action{Verb: api.StepDown, To: c.To, Reason: c.Reason}, success)
}

type removeCommand struct {
	Node  string `arg:"" help:"Id of the node."`
	Force bool   `help:"Reassign its shards as soon as its lease has ended. You guarantee that the node and its app have stopped."`
	reasonFlag
	target
}

// Run removes a node.
func (c *removeCommand) Run(ctx context.Context, session *session) error {
	return c.runAction(ctx, session, api.Action{Verb: api.Remove, Node: c.Node, Force: c.Force, Reason: c.Reason}, "node "+c.Node+" is removed")
}

// actionResult is the JSON output of an action.
type actionResult struct {
	Action  api.Verb `json:"action"`
	Service string   `json:"service,omitempty"`
	Node    string   `json:"node,omitempty"`
	To      string   `json:"to,omitempty"`
	Done    bool     `json:"done"`
	// Warning is a consequence that the operator may not expect.
	Warning string `json:"warning,omitempty"`
}

// runAction sends an action to the node, and prints the message success once the action has succeeded.
func (t *target) runAction(ctx context.Context, session *session, action api.Action, success string) error {
	return t.runActionOf(ctx, session, action, func(api.Action) string { return success })
}

// runActionOf sends an action to the node. Once the action has succeeded, it prints the message that success returns
// for the action as the node has parsed it.
func (t *target) runActionOf(ctx context.Context, session *session, action api.Action, success func(done api.Action) string) error {
	client, err := t.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	result, err := client.Do(ctx, action)
	if err != nil {
		return err
	}
	if t.JSON {
		return writeJSON(session.out, actionResult{Action: action.Verb, Service: result.Service, Node: action.Node, To: action.To, Done: true, Warning: result.Warning})
	}
	if result.Warning != "" {
		session.printError("warning: " + result.Warning)
	}
	_, err = fmt.Fprintln(session.out, success(result.Action))
	return err
}

type appRestartedCommand struct {
	Node string `arg:"" optional:"" help:"ID of the node, or NODE/INSTANCE for one app instance (default: the node at --admin)."`
	reasonFlag
	target
}

// Help explains when the command is needed.
func (c *appRestartedCommand) Help() string {
	return `A shard that has left an app without hooks returns to it only after the app has
restarted. A node notices a restart by refused connections, or by another
Shardway-App-Instance header in the response to its health check. Run this command after
a restart that neither of them shows. Every shard may then return to the app.`
}

// Run tells the cluster that the app has restarted.
func (c *appRestartedCommand) Run(ctx context.Context, session *session) error {
	if c.Node == "" {
		client, err := c.client(session)
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
	return c.runAction(ctx, session, api.Action{Verb: api.AppRestarted, Node: c.Node, Reason: c.Reason}, "the app of node "+c.Node+" counts as restarted: every shard may return to it")
}
