package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"shardway/admin/api"
)

type joinsCommand struct {
	All bool `help:"Show active members too."`
	target
}

// Help explains the stages.
func (c *joinsCommand) Help() string {
	return `Each node that joins passes these stages: requested, accepted, synchronized, active.
With --join-approval manual, the leader accepts a node when an operator runs approve.
A request that an operator refuses is refused, and a request without a decision is
expired after --join-timeout. DURATIONS are those of the stages that have ended.

With --join-approval auto, the leader accepts each node at once, and the stages have no
tickets and no durations.`
}

// Run prints the joins.
func (c *joinsCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Joins(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	return writeJoins(session.out, list, c.All)
}

// writeJoins prints one row for each node that is not active, or for each node if all is set.
func writeJoins(w io.Writer, list api.JoinList, all bool) error {
	table := newTable(w, "NODE", "STAGE", "TICKET", "DURATIONS", "REASON", "SERVER")
	count := 0
	for _, entry := range list.Joins {
		if entry.Stage == "active" && !all {
			continue
		}
		count++
		ticket := ""
		if entry.Ticket > 0 {
			ticket = strconv.FormatUint(entry.Ticket, 10)
		}
		table.row(entry.Node, entry.Stage, ticket, describeStages(entry.Stages), entry.Reason, entry.Server)
	}
	if count == 0 {
		_, err := fmt.Fprintf(w, "no node joins; join-approval is %s\n", list.Approval)
		return err
	}
	return table.flush()
}

// describeStages returns the durations of the stages that have ended.
func describeStages(stages []api.JoinStage) string {
	var durations []string
	for i, stage := range stages {
		if isLast := i+1 == len(stages); !isLast {
			durations = append(durations, fmt.Sprintf("%s:%dms", stage.Stage, stage.MS))
		}
	}
	return strings.Join(durations, ",")
}

type approveCommand struct {
	Node   string `arg:"" help:"Id of the node."`
	Ticket uint64 `help:"Ticket of the request; the leader refuses another one." placeholder:"N"`
	reasonFlag
	target
}

// Help explains what is approved.
func (c *approveCommand) Help() string {
	return `The approval is for the disk that the node has now: a node with another disk requests
again. A restart or a return of the node needs no further approval, until "shardway
remove" removes the node. You can also approve a node whose request was refused.`
}

// Run approves the request of a node.
func (c *approveCommand) Run(ctx context.Context, session *session) error {
	action := api.Action{Verb: api.Approve, Node: c.Node, Ticket: c.Ticket, Reason: c.Reason}
	return c.runAction(ctx, session, action, "node "+c.Node+" joins the cluster; `shardway joins` shows its stage")
}

type refuseCommand struct {
	Node   string `arg:"" help:"Id of the node."`
	Ticket uint64 `help:"Ticket of the request; the leader refuses another one." placeholder:"N"`
	Reason string `required:"" help:"Reason, which the node reports." placeholder:"TEXT"`
	target
}

// Run refuses the request of a node.
func (c *refuseCommand) Run(ctx context.Context, session *session) error {
	action := api.Action{Verb: api.Refuse, Node: c.Node, Ticket: c.Ticket, Reason: c.Reason}
	return c.runAction(ctx, session, action, "node "+c.Node+" does not join; stop its process, or run `shardway approve "+c.Node+"`")
}
