package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"shardway/admin/client"
)

// waitPollInterval is the interval between two checks.
const waitPollInterval = 200 * time.Millisecond

type waitCommand struct {
	What    string        `arg:"" enum:"serving,node,drained" help:"One of serving, node, drained."`
	Node    string        `arg:"" optional:"" help:"ID of the node (for drained; default: the node at --admin)."`
	Timeout time.Duration `help:"Fail after this time (0: no limit)." placeholder:"DURATION"`
	Service string        `help:"With serving, wait only for the shards of this service." placeholder:"NAME"`
	target
}

// Help describes the conditions.
func (c *waitCommand) Help() string {
	return `For scripts: the exit code is 0 once the condition holds, and 1 after --timeout. Until
then, the command prints which part of the condition does not hold yet, and retries
while a node does not respond.

  serving        the node at --admin is ready, and the owner of every shard serves
  node NODE      the node is in the shard map, or is a gateway that forwards requests
  drained [NODE] the drained node owns no shards and runs no requests`
}

// waitResult is the JSON output once the condition holds.
type waitResult struct {
	For  string `json:"for"`
	Node string `json:"node,omitempty"`
	Done bool   `json:"done"`
}

// Run waits until the condition holds.
func (c *waitCommand) Run(ctx context.Context, session *session) error {
	conditions := map[string]func(context.Context, *client.Client) (string, error){
		"serving": c.unmetService, "node": c.unmetNode, "drained": c.unmetDrain,
	}
	unmet := conditions[c.What]
	switch {
	case c.What == "serving" && c.Node != "":
		return usageError("wait serving applies to the cluster: omit the node, or use wait node " + c.Node)
	case c.What == "node" && c.Node == "":
		return usageError("wait node requires a node: wait node ID; `shardway nodes` lists them")
	case c.Service != "" && c.What != "serving":
		return usageError("--service belongs to wait serving: omit it")
	case c.Timeout < 0:
		return usageError(fmt.Sprintf("--timeout %s is negative: give a value such as 1m, or 0 to wait without a limit", c.Timeout))
	}
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	if err := c.poll(ctx, session, func(ctx context.Context) (string, error) { return unmet(ctx, client) }); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, waitResult{For: c.What, Node: c.Node, Done: true})
	}
	return nil
}

// poll calls unmet until it returns an empty text, which means that the condition holds. Otherwise the text
// describes which part of the condition does not hold yet, and poll prints it. It retries after temporary
// errors.
func (c *waitCommand) poll(ctx context.Context, session *session, unmet func(context.Context) (string, error)) error {
	w := session.out
	if c.JSON {
		w = io.Discard
	}
	bar := progress{w: w, inPlace: isTerminal(w)}
	defer bar.end()
	lastReason := "no answer yet"
	for {
		reason, err := unmet(ctx)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("after %s: %s", c.Timeout, lastReason)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !isTemporary(err):
			return err
		case err != nil:
			reason = err.Error()
		case reason == "":
			return nil
		}
		lastReason = reason
		if err := bar.show(reason); err != nil {
			return err
		}
		_ = sleep(ctx, waitPollInterval) // the loop checks ctx
	}
}

// isTemporary reports whether a retry may succeed: the node is not reachable yet, or not ready yet.
func isTemporary(err error) bool {
	type statusError interface {
		error
		StatusCode() int
	}
	if response, ok := errors.AsType[statusError](err); ok {
		return response.StatusCode() >= http.StatusInternalServerError
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	temporary := []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
		io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded,
	}
	return slices.ContainsFunc(temporary, func(known error) bool { return errors.Is(err, known) })
}

// unmetService describes why the cluster does not serve all shards. Empty means that it does.
func (c *waitCommand) unmetService(ctx context.Context, client *client.Client) (string, error) {
	if err := client.Ready(ctx); err != nil {
		return "", err
	}
	if c.Service != "" {
		return c.unmetServiceShards(ctx, client)
	}
	status, err := client.Status(ctx)
	switch {
	case err != nil:
		return "", err
	case status.Epoch == 0:
		return "no shard map yet", nil
	case status.Shards.Orphaned > 0:
		return pluralize(status.Shards.Orphaned, "shard") + " without an owner", nil
	case status.Shards.Unavailable > 0:
		return pluralize(status.Shards.Unavailable, "shard") + " unavailable", nil
	}
	return "", nil
}

// unmetServiceShards describes why the cluster does not serve all shards of the service of the flag. Empty means that
// it does.
func (c *waitCommand) unmetServiceShards(ctx context.Context, client *client.Client) (string, error) {
	list, err := client.ServiceShards(ctx, c.Service, "")
	if err != nil {
		return "", err
	}
	orphaned, unavailable := 0, 0
	for _, shard := range list.Shards {
		switch {
		case shard.Owner == "":
			orphaned++
		case shard.Unavailable != "":
			unavailable++
		}
	}
	switch {
	case list.Epoch == 0:
		return "no shard map yet", nil
	case orphaned > 0:
		return fmt.Sprintf("%s of service %s without an owner", pluralize(orphaned, "shard"), c.Service), nil
	case unavailable > 0:
		return fmt.Sprintf("%s of service %s unavailable", pluralize(unavailable, "shard"), c.Service), nil
	}
	return "", nil
}

// unmetNode describes why the node is not active. Empty means that it is.
func (c *waitCommand) unmetNode(ctx context.Context, client *client.Client) (string, error) {
	list, err := client.Nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, node := range list.Nodes {
		if node.ID != c.Node {
			continue
		}
		if node.State == "active" || node.State == "cordoned" { // a cordoned node keeps its shards
			return "", nil
		}
		return fmt.Sprintf("node %s is %s", c.Node, node.State), nil
	}
	return fmt.Sprintf("node %s is not there", c.Node), nil
}

// unmetDrain describes what remains at the node, by default the node at --admin. Empty means that
// the drain is complete.
func (c *waitCommand) unmetDrain(ctx context.Context, client *client.Client) (string, error) {
	if c.Node == "" {
		status, err := client.Status(ctx)
		if err != nil {
			return "", err
		}
		c.Node = status.Node
	}
	state, err := client.DrainState(ctx, c.Node)
	switch {
	case err != nil:
		return "", err
	case !state.Requested:
		return describeOwner(c.Node) + " has no drain request yet", nil
	case state.BlockedBy != "":
		return describeRemaining(state) + ", and they do not move: " + state.BlockedBy, nil
	case state.Left():
		return describeRemaining(state) + " at node " + c.Node, nil
	}
	return "", nil
}
