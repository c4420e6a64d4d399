package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"shardway/admin"
	"shardway/admin/api"
)

type websocketsCommand struct {
	What  string  `arg:"" optional:"" enum:"show,move-test" default:"show" help:"One of show, move-test; default show."`
	All   bool    `help:"With move-test, all resumable WebSockets of the cluster."`
	Key   *string `help:"With move-test, only WebSockets of this key." placeholder:"KEY"`
	Shard *uint32 `help:"Only WebSockets of this shard." placeholder:"N"`
	Gap   bool    `help:"With move-test, cut upstream connections, as when an owner dies: apps are told that messages may be missing."`
	Limit int     `help:"Maximum number of shards to show." default:"10" placeholder:"N"`
	target
}

// Help tells what a socket may be, and what move-test is for.
func (c *websocketsCommand) Help() string {
	return `A WebSocket is kept if its app says so: its client stays connected to its node
while the leg, the connection to the app, follows the shard.

  ATTACHED  kept, and has a leg
  DETACHED  kept, and waits for the next one, for --websocket-resume-timeout at most
  PLAIN     not kept: closed with 1012 when the shard moves

move-test rehearses a move: each leg is handed over, and the next one goes to where
the shard is. With --gap the leg is cut instead, as when the owner dies; a socket
that loses a fourth one within a minute is closed with 1012. Give --key, --shard or
--all for all WebSockets of the cluster.`
}

// Run lists sockets, or breaks some.
func (c *websocketsCommand) Run(ctx context.Context, s *session) error {
	switch {
	case c.What != "move-test" && (c.Key != nil || c.Gap || c.All):
		return misuse("--all, --key and --gap need move-test, as in: shardway websockets move-test --key alice --gap")
	case c.Key != nil && c.Shard != nil:
		return misuse("give --key or --shard, not both: the shard is that of the key")
	case c.All && (c.Key != nil || c.Shard != nil):
		return misuse("give one of --all, --key and --shard")
	case c.What == "move-test" && !c.All && c.Key == nil && c.Shard == nil:
		return misuse("move-test needs --all, --key or --shard, as in: shardway websockets move-test --shard 7")
	}
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.What == "move-test" {
		return c.rehearse(ctx, s, client)
	}
	list, err := client.Sockets(ctx)
	if err != nil {
		return err
	}
	if c.Shard != nil {
		list.Shards = slices.DeleteFunc(list.Shards, func(x api.ShardSockets) bool { return x.Shard != *c.Shard })
		if len(list.Shards) == 0 {
			if _, err := client.Shard(ctx, *c.Shard); err != nil {
				return err // there is no such shard, above all
			}
		}
		if len(list.Shards) == 0 && len(list.Unresponsive) == 0 {
			return fmt.Errorf("shard %d has no WebSocket: shardway websockets lists those that have some", *c.Shard)
		}
	}
	if c.JSON {
		return writeJSON(s.out, list)
	}
	return c.write(s.out, list)
}

// write writes the nodes, then the shards with the most sockets.
func (c *websocketsCommand) write(w io.Writer, list api.SocketList) error {
	t := newTable(w, "NODE", "ATTACHED", "DETACHED", "AT-APP")
	for _, x := range list.Nodes {
		t.row(x.Node, x.Attached, x.Detached, x.App)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	all := func(x api.ShardSockets) int { return x.Attached + x.Detached + x.Plain }
	slices.SortStableFunc(list.Shards, func(a, b api.ShardSockets) int { return cmp.Compare(all(b), all(a)) })
	t = newTable(w, "SHARD", "ATTACHED", "DETACHED", "PLAIN")
	shown := min(len(list.Shards), max(c.Limit, 0))
	for _, x := range list.Shards[:shown] {
		t.row(x.Shard, x.Attached, x.Detached, x.Plain)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := len(list.Shards) - shown; more > 0 {
		if _, err := fmt.Fprintf(w, "%d more shards have WebSockets: --limit N shows them\n", more); err != nil {
			return err
		}
	}
	return writeSilent(w, list.Unresponsive)
}

// writeSilent names the nodes that did not tell.
func writeSilent(w io.Writer, silent []string) error {
	if len(silent) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nno response from %s\n", strings.Map(printable, strings.Join(silent, ", ")))
	return err
}

// rehearse breaks legs and says how many.
func (c *websocketsCommand) rehearse(ctx context.Context, s *session, client *admin.Client) error {
	broken, err := client.BreakSockets(ctx, api.SocketBreak{Key: c.Key, Shard: c.Shard, Gap: c.Gap})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, broken)
	}
	how := "are handed over"
	if c.Gap {
		how = "were cut"
	}
	for _, node := range slices.Sorted(maps.Keys(broken.Nodes)) {
		line := fmt.Sprintf("%d legs of clients at %s %s", broken.Nodes[node], node, how)
		if _, err = fmt.Fprintln(s.out, strings.Map(printable, line)); err != nil {
			return err
		}
	}
	return writeSilent(s.out, broken.Unresponsive)
}
