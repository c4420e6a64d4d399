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
)

type socketsCommand struct {
	What  string  `arg:"" optional:"" enum:"show,break" default:"show" help:"One of show, break; else show."`
	Key   *string `help:"With break, only sockets of this key." placeholder:"KEY"`
	Shard *uint32 `help:"Only sockets of this shard." placeholder:"N"`
	Gap   bool    `help:"With break, cut the legs, as when an owner dies: apps are told that messages may be missing."`
	Limit int     `help:"Maximum number of shards to show." default:"10" placeholder:"N"`
	target
}

// Help tells what a socket may be, and what break is for.
func (c *socketsCommand) Help() string {
	return `A WebSocket is kept if its app says so: its client stays connected to its node
while the leg, the connection to the app, follows the shard.

  ATTACHED  kept, and has a leg
  DETACHED  kept, and waits for the next one, for --websocket-resume-timeout at most
  PLAIN     not kept: closed with 1012 when the shard moves

break rehearses a move: each leg is handed over, and the next one goes to where
the shard is. With --gap the leg is cut instead, as when the owner dies; a socket
that loses a fourth one within a minute is closed with 1012. Without --key or
--shard it is all sockets of the cluster.`
}

// Run lists sockets, or breaks some.
func (c *socketsCommand) Run(ctx context.Context, s *session) error {
	switch {
	case c.What != "break" && (c.Key != nil || c.Gap):
		return misuse("--key and --gap are of break, as in: shardway sockets break --key alice --gap")
	case c.Key != nil && c.Shard != nil:
		return misuse("give --key or --shard, not both: the shard is that of the key")
	}
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.What == "break" {
		return c.rehearse(ctx, s, client)
	}
	list, err := client.Sockets(ctx)
	if err != nil {
		return err
	}
	if c.Shard != nil {
		list.Shards = slices.DeleteFunc(list.Shards, func(x admin.ShardSockets) bool { return x.Shard != *c.Shard })
		if len(list.Shards) == 0 {
			if _, err := client.Shard(ctx, *c.Shard); err != nil {
				return err // there is no such shard, above all
			}
		}
		if len(list.Shards) == 0 && len(list.Silent) == 0 {
			return fmt.Errorf("shard %d has no socket: shardway sockets lists those that have some", *c.Shard)
		}
	}
	if c.JSON {
		return writeJSON(s.out, list)
	}
	return c.write(s.out, list)
}

// write writes the nodes, then the shards with the most sockets.
func (c *socketsCommand) write(w io.Writer, list admin.SocketList) error {
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
	all := func(x admin.ShardSockets) int { return x.Attached + x.Detached + x.Plain }
	slices.SortStableFunc(list.Shards, func(a, b admin.ShardSockets) int { return cmp.Compare(all(b), all(a)) })
	t = newTable(w, "SHARD", "ATTACHED", "DETACHED", "PLAIN")
	shown := min(len(list.Shards), max(c.Limit, 0))
	for _, x := range list.Shards[:shown] {
		t.row(x.Shard, x.Attached, x.Detached, x.Plain)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := len(list.Shards) - shown; more > 0 {
		if _, err := fmt.Fprintf(w, "%d more shards have sockets: --limit N shows them\n", more); err != nil {
			return err
		}
	}
	return writeSilent(w, list.Silent)
}

// writeSilent names the nodes that did not tell.
func writeSilent(w io.Writer, silent []string) error {
	if len(silent) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nnot told by %s\n", strings.Map(printable, strings.Join(silent, ", ")))
	return err
}

// rehearse breaks legs and says how many.
func (c *socketsCommand) rehearse(ctx context.Context, s *session, client *admin.Client) error {
	broken, err := client.BreakSockets(ctx, admin.SocketBreak{Key: c.Key, Shard: c.Shard, Gap: c.Gap})
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
	return writeSilent(s.out, broken.Silent)
}
