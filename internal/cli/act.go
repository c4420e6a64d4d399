package cli

import (
	"context"
	"fmt"

	"shardway/admin/api"
)

type stepDownCommand struct{ target }

// Run makes the leader transfer its leadership.
func (c *stepDownCommand) Run(ctx context.Context, s *session) error {
	return c.runAction(ctx, s, api.Action{Verb: api.StepDown}, "the leader has handed over")
}

type removeCommand struct {
	Node  string `arg:"" help:"Id of the node."`
	Force bool   `help:"Reassign its shards immediately. You guarantee that the node and its app have stopped."`
	target
}

// Run removes a node.
func (c *removeCommand) Run(ctx context.Context, s *session) error {
	return c.runAction(ctx, s, api.Action{Verb: api.Remove, Node: c.Node, Force: c.Force}, "node "+c.Node+" is removed")
}

// actionResult is the JSON output of an action.
type actionResult struct {
	Action api.Verb `json:"action"`
	Node   string   `json:"node,omitempty"`
	Done   bool     `json:"done"`
}

// runAction sends an action to the node and prints success.
func (t *target) runAction(ctx context.Context, s *session, a api.Action, success string) error {
	client, err := t.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	if err = client.Do(ctx, a); err != nil {
		return err
	}
	if t.JSON {
		return writeJSON(s.out, actionResult{Action: a.Verb, Node: a.Node, Done: true})
	}
	_, err = fmt.Fprintln(s.out, success)
	return err
}
