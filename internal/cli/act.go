package cli

import (
	"context"
	"fmt"

	"shardway/admin/api"
)

type stepDownCommand struct{ target }

// Run makes the leader hand over.
func (c *stepDownCommand) Run(ctx context.Context, s *session) error {
	return c.act(ctx, s, api.Action{Verb: api.StepDown}, "the leader has handed over")
}

type removeCommand struct {
	Node  string `arg:"" help:"Id of the node."`
	Force bool   `help:"Reassign its shards immediately. You guarantee that the node and its app have stopped."`
	target
}

// Run takes a node out.
func (c *removeCommand) Run(ctx context.Context, s *session) error {
	return c.act(ctx, s, api.Action{Verb: api.Remove, Node: c.Node, Force: c.Force}, "node "+c.Node+" is removed")
}

// done is the JSON of an action that was carried out.
type done struct {
	Action api.Verb `json:"action"`
	Node   string   `json:"node,omitempty"`
	Done   bool     `json:"done"`
}

// act has an action carried out and says so.
func (t *target) act(ctx context.Context, s *session, a api.Action, success string) error {
	client, err := t.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	if err = client.Do(ctx, a); err != nil {
		return err
	}
	if t.JSON {
		return writeJSON(s.out, done{Action: a.Verb, Node: a.Node, Done: true})
	}
	_, err = fmt.Fprintln(s.out, success)
	return err
}
