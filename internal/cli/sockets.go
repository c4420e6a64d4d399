package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"shardway/admin/api"
	"shardway/admin/client"
)

type websocketsCommand struct {
	What  string  `arg:"" optional:"" enum:"show,move-test" default:"show" help:"One of show, move-test; default show."`
	All   bool    `help:"With move-test, all resumable WebSockets of the cluster."`
	Key   *string `help:"With move-test, only WebSockets of this key." placeholder:"KEY"`
	Shard *uint32 `help:"Only WebSockets of this shard." placeholder:"N"`
	Gap   bool    `help:"With move-test, abort upstream connections as if the owner failed; apps are informed of a gap."`
	Limit int     `help:"Maximum number of shards to show." default:"10" placeholder:"N"`

	Service string `help:"Only WebSockets of this service; --shard and --key refer to it." placeholder:"NAME"`
	reasonFlag
	target
}

// Help explains the states of WebSockets and the purpose of move-test.
func (c *websocketsCommand) Help() string {
	return `The app of a WebSocket decides whether it is resumable. The client of a resumable
WebSocket stays connected to its node while the upstream connection follows the shard.

  ATTACHED  resumable, with an upstream connection
  DETACHED  resumable, waits for its next upstream connection, for up to
            --websocket-resume-timeout
  PLAIN     not resumable, closed with 1012 when the shard moves

move-test has the effect of a move: each upstream connection is handed over, and the
next one goes to the owner of the shard. With --gap, upstream connections are cut as if
the owner failed. A WebSocket that loses four upstream connections within a minute is
closed with 1012. Give one of --key, --shard and --all.`
}

// Run lists WebSockets, or closes the upstream connections of some.
func (c *websocketsCommand) Run(ctx context.Context, session *session) error {
	switch {
	case c.What != "move-test" && (c.Key != nil || c.Gap || c.All || c.Reason != ""):
		return usageError("--all, --key, --gap and --reason need move-test, as in: shardway websockets move-test --key alice --gap")
	case c.Key != nil && c.Shard != nil:
		return usageError("give --key or --shard, not both: the key determines the shard")
	case c.All && (c.Key != nil || c.Shard != nil):
		return usageError("give one of --all, --key and --shard")
	case c.What == "move-test" && !c.All && c.Key == nil && c.Shard == nil:
		return usageError("move-test needs --all, --key or --shard, as in: shardway websockets move-test --shard 7")
	case c.All && c.Service != "":
		return usageError("--all selects the WebSockets of all services: omit --service, or give --key or --shard")
	}
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.What == "move-test" {
		return c.testMove(ctx, session, client)
	}
	list, err := client.Sockets(ctx)
	if err != nil {
		return err
	}
	if err := c.filter(ctx, client, &list); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	return c.write(session.out, list)
}

// filter removes the shards of other services than --service, and all shards except --shard.
func (c *websocketsCommand) filter(ctx context.Context, client *client.Client, list *api.SocketList) error {
	filters, err := filtersService(ctx, client, c.Service)
	if err != nil {
		return err
	}
	if filters {
		list.Shards = slices.DeleteFunc(list.Shards, func(shard api.ShardSockets) bool { return shard.Service != c.Service && shard.Service != "" })
	}
	if c.Shard == nil {
		return nil
	}
	row, err := client.ServiceShard(ctx, c.Service, *c.Shard)
	if err != nil {
		return err // usually because the shard does not exist
	}
	list.Shards = slices.DeleteFunc(list.Shards, func(shard api.ShardSockets) bool { return shard.Shard != row.Shard.Shard })
	if len(list.Shards) == 0 && len(list.Unresponsive) == 0 {
		return fmt.Errorf("%s has no WebSocket: run shardway websockets to see shards with WebSockets", describeShard(row.Shard.Shard, row.Service, row.ServiceShard))
	}
	return nil
}

// write prints the nodes, then the shards with the most WebSockets.
func (c *websocketsCommand) write(w io.Writer, list api.SocketList) error {
	table := newTable(w, "NODE", "ATTACHED", "DETACHED", "AT-APP")
	for _, node := range list.Nodes {
		table.row(node.Node, node.Attached, node.Detached, node.App)
	}
	if err := table.flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	total := func(shard api.ShardSockets) int { return shard.Attached + shard.Detached + shard.Plain }
	slices.SortStableFunc(list.Shards, func(a, b api.ShardSockets) int { return cmp.Compare(total(b), total(a)) })
	hasServices := slices.ContainsFunc(list.Shards, func(shard api.ShardSockets) bool { return shard.Service != "" })
	table = newTable(w, withService(hasServices, "SERVICE", "SHARD", "ATTACHED", "DETACHED", "PLAIN")...)
	shown := min(len(list.Shards), max(c.Limit, 0))
	for _, shard := range list.Shards[:shown] {
		table.row(withService[any](hasServices, shard.Service, shardNumber(shard.Shard, shard.ServiceShard), shard.Attached, shard.Detached, shard.Plain)...)
	}
	if err := table.flush(); err != nil {
		return err
	}
	if hidden := len(list.Shards) - shown; hidden > 0 {
		if _, err := fmt.Fprintf(w, "%d more shards have WebSockets: --limit N shows them\n", hidden); err != nil {
			return err
		}
	}
	return writeUnresponsive(w, list.Unresponsive)
}

// writeUnresponsive prints the nodes that did not respond.
func writeUnresponsive(w io.Writer, nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nno response from %s\n", strings.Map(printable, strings.Join(nodes, ", ")))
	return err
}

// testMove closes upstream connections and prints how many.
func (c *websocketsCommand) testMove(ctx context.Context, session *session, client *client.Client) error {
	result, err := client.BreakSockets(ctx, c.Service, api.SocketBreak{All: c.All, Key: c.Key, Shard: c.Shard, Gap: c.Gap}, c.Reason)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, result)
	}
	effect := "are handed over"
	if c.Gap {
		effect = "were cut"
	}
	for _, node := range slices.Sorted(maps.Keys(result.Nodes)) {
		line := fmt.Sprintf("%d upstream connections of clients at %s %s", result.Nodes[node], node, effect)
		if _, err = fmt.Fprintln(session.out, strings.Map(printable, line)); err != nil {
			return err
		}
	}
	return writeUnresponsive(session.out, result.Unresponsive)
}
