package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"shardway/admin"
)

type levelCommand struct {
	Raise bool `help:"Raise it now, without waiting for --level-after."`
	target
}

// Help tells what a level is for.
func (c *levelCommand) Help() string {
	return `A level is a number for what nodes may write to each other and into their log. A
new version may know a higher one; it writes as before until the leader raises
the level: once every node has told it that it knows it, and --level-after has
passed, or by --raise. Until then nodes can go back to the former version.
Afterwards they cannot: it refuses to start on such a data directory.

A node that knows less, or is not heard, holds it up: upgrade it, start it, or
take it out with shardway remove. Without a flag the command shows all this.`
}

// Run shows the level, or raises it first.
func (c *levelCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	var l admin.LevelState
	if c.Raise {
		l, err = client.RaiseLevel(ctx)
	} else {
		l, err = client.Level(ctx)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, l)
	}
	return writeLevel(s.out, l)
}

func writeLevel(w io.Writer, l admin.LevelState) error {
	if len(l.Nodes) == 0 {
		_, err := fmt.Fprintf(w, "level %d is in force; no leader tells what the nodes know\n", l.InForce)
		return err
	}
	out := newTable(w, "NODE", "KNOWS", fmt.Sprintf("LEVEL %d", l.Next))
	for _, n := range l.Nodes {
		knows, state := "-", "in force"
		if n.Knows > 0 {
			knows = strconv.Itoa(int(n.Knows))
		}
		switch {
		case l.Next == l.InForce:
		case n.Blocks && !n.Heard:
			state = "held up: not heard"
		case n.Blocks:
			state = "held up"
		default:
			state = "known"
		}
		out.row(n.Node, knows, state)
	}
	if err := out.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nlevel %d is in force; %s\n", l.InForce, strings.Map(printable, nextLevel(l)))
	return err
}

// nextLevel says when the next level will be raised.
func nextLevel(l admin.LevelState) string {
	switch {
	case l.Next == l.InForce:
		return "no node knows a higher one"
	case l.Behind != "":
		return fmt.Sprintf("level %d is held up by %s", l.Next, l.Behind)
	}
	return fmt.Sprintf("level %d will be raised in %s, or now by: shardway level --raise", l.Next, l.Wait)
}
