package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"shardway/admin/client"
	"shardway/event"
	"shardway/internal/problem"
)

// followWait is the duration of one long poll, and followPause the delay after a failed one.
const (
	followWait  = 30 * time.Second
	followPause = time.Second
)

type eventsCommand struct {
	Follow bool   `help:"Also print new events, until interrupted." short:"f"`
	After  string `help:"Only events after the event with this ID."              placeholder:"ID"`
	target
}

// Help describes the source and the JSON format of the events.
func (c *eventsCommand) Help() string {
	return `Each node stores up to 1024 events since its start. Use --admin to choose the node.
With --json, each line contains one event; docs/reference/events.md describes the fields.`
}

// Run prints the stored events, and with --follow also new ones.
func (c *eventsCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	if !c.Follow {
		list, err := client.Events(ctx, c.After, 0)
		if err != nil {
			return err
		}
		return c.write(session.out, list.Events)
	}
	return c.follow(ctx, session, client)
}

// follow prints events until ctx ends. If the node does not respond, it retries, because the node may
// be restarting, and prints one message.
func (c *eventsCommand) follow(ctx context.Context, session *session, client *client.Client) error {
	after, wait, unreachable := c.After, time.Duration(0), false
	for {
		list, err := client.Events(ctx, after, wait)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // interrupted by the user
		case err == nil:
			if err = c.write(session.out, list.Events); err != nil {
				return err
			}
			after, wait, unreachable = list.Next, followWait, false
			continue
		case after == "" || isPermanent(err):
			return err
		case !unreachable:
			unreachable = true
			session.printError(fmt.Sprintf("%v; retrying until the node responds", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followPause):
		}
	}
}

// isPermanent reports whether a retry cannot succeed.
func isPermanent(err error) bool {
	found, ok := errors.AsType[*problem.Problem](err)
	return ok && found.Code != problem.NotReady
}

func (c *eventsCommand) write(w io.Writer, events []event.Event) error {
	for i := range events {
		line := formatEvent(&events[i])
		if c.JSON {
			data, err := json.Marshal(&events[i])
			if err != nil {
				return err
			}
			line = string(data)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// formatEvent formats an event as one line of text.
func formatEvent(e *event.Event) string {
	words := []string{e.Time.Local().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-16s", e.Kind)}
	if e.Kind != event.Lost {
		words = append(words, fmt.Sprintf("epoch %d term %d", e.Epoch, e.Term))
	}
	if e.Node != "" {
		words = append(words, e.Node)
	}
	if e.Reason != "" {
		words = append(words, "("+e.Reason+")")
	}
	if e.Missed > 0 {
		words = append(words, fmt.Sprintf("%d events", e.Missed))
	}
	if x := e.Change; x != nil {
		words = append(words, formatChange(x)...)
	}
	if x := e.Finding; x != nil {
		words = append(words, fmt.Sprintf("%s %s: %s", x.Severity, x.Code, x.Text))
	}
	if x := e.Sockets; x != nil {
		words = append(words, fmt.Sprintf("%d WebSockets of %d shards: %d with a gap, %d lost, interrupted for up to %.0f ms", x.Sockets, x.Shards, x.Gaps, x.Lost, x.LongestMS))
	}
	if x := e.Action; x != nil {
		words = append(words, fmt.Sprintf("%s by %s from %s: %d", x.What, x.By, x.From, x.Status))
		if x.Suppressed > 0 {
			words = append(words, fmt.Sprintf("(and %d refused before)", x.Suppressed))
		}
	}
	return strings.Map(printable, strings.Join(words, "  "))
}

func formatChange(change *event.Change) []string {
	words := []string{fmt.Sprintf("moved %d (here +%d -%d)", change.Moved, change.Gained, change.Released)}
	for i, moves := range change.Moves {
		if i == 4 {
			words = append(words, "…")
			break
		}
		from := moves.From
		if from == "" {
			from = "orphaned"
		}
		words = append(words, fmt.Sprintf("%s→%s %d", from, moves.To, moves.Shards))
	}
	if change.Queued > 0 {
		words = append(words, fmt.Sprintf("queued %d", change.Queued))
	}
	for _, phase := range change.Phases {
		words = append(words, fmt.Sprintf("%s %.1f ms", phase.Name, phase.MS))
	}
	if change.FromLog {
		words = append(words, "found at the start")
	}
	return words
}
