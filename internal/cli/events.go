package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/event"
	"shardway/internal/problem"
)

const (
	// followWait is the duration of one long poll, and followPause the delay after a failed one.
	followWait  = 30 * time.Second
	followPause = time.Second
	// maxShownMoves is the maximum number of pairs of nodes in the text of a map change.
	maxShownMoves = 4
)

type eventsCommand struct {
	Follow bool   `help:"Also print new events, until interrupted." short:"f"`
	After  string `help:"Only events after the event with this ID."              placeholder:"ID"`
	Shards bool   `help:"Also print the numbers of the shards that moved."`
	target
}

// Help describes the source and the JSON format of the events.
func (c *eventsCommand) Help() string {
	return `Each node stores up to 1024 events since its start. Use --admin to choose the node.
With --json, each line contains one event; docs/reference/events.md describes the fields.`
}

// Run prints the stored events, and with --follow also new ones.
func (c *eventsCommand) Run(ctx context.Context, session *session) error {
	events, err := c.client(session)
	if err != nil {
		return err
	}
	defer events.Close()
	if !c.Follow {
		list, err := events.Events(ctx, client.EventQuery{After: c.After, Shards: c.Shards})
		if err != nil {
			return err
		}
		return c.write(session.out, list.Events)
	}
	return c.follow(ctx, session, events)
}

// follow prints events until ctx ends. If the node does not respond, it retries, because the node may
// be restarting.
func (c *eventsCommand) follow(ctx context.Context, session *session, events *client.Client) error {
	after, wait := c.After, time.Duration(0)
	for {
		var list api.EventList
		fetch := func() (err error) {
			list, err = events.Events(ctx, client.EventQuery{After: after, Wait: wait, Shards: c.Shards})
			return err
		}
		var err error
		if after == "" {
			err = fetch()
		} else {
			err = session.retry(ctx, fetch)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted by the user
		}
		if err != nil {
			return err
		}
		if err = c.write(session.out, list.Events); err != nil {
			return err
		}
		after, wait = list.Next, followWait
	}
}

// retry calls fetch until it succeeds, ctx ends, or another attempt cannot succeed. It prints one message for the
// first failed attempt. The error is nil if ctx ends.
func (s *session) retry(ctx context.Context, fetch func() error) error {
	for isFirst := true; ; isFirst = false {
		err := fetch()
		switch {
		case err == nil || ctx.Err() != nil:
			return nil //nolint:nilerr // interrupted by the user
		case isPermanent(err):
			return err
		case isFirst:
			s.printError(fmt.Sprintf("%v; retrying until the node responds", err))
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

// write prints one line for each event, as text or as JSON.
func (c *eventsCommand) write(w io.Writer, events []event.Event) error {
	for i := range events {
		if c.JSON {
			if err := writeJSONLine(w, &events[i]); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(w, formatEvent(&events[i])); err != nil {
			return err
		}
	}
	return nil
}

// formatEvent formats an event as one line of text.
func formatEvent(ev *event.Event) string {
	words := []string{ev.Time.Local().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-16s", ev.Kind)}
	if ev.Kind != event.Lost {
		words = append(words, fmt.Sprintf("epoch %d term %d", ev.Epoch, ev.Term))
	}
	if ev.Node != "" {
		words = append(words, ownerName(ev.Node, ev.Instance))
	}
	if ev.Reason != "" {
		words = append(words, "("+ev.Reason+")")
	}
	if ev.Missed > 0 {
		words = append(words, fmt.Sprintf("%d events", ev.Missed))
	}
	if change := ev.Change; change != nil {
		words = append(words, formatChange(change)...)
	}
	for _, list := range ev.Shards {
		from, to := cmp.Or(ownerName(list.From, list.FromInstance), "orphaned"), cmp.Or(ownerName(list.To, list.ToInstance), "orphaned")
		words = append(words, from+"→"+to+": "+formatRanges(list.Shards))
	}
	if ev.ShardsOmitted {
		words = append(words, "shards no longer stored")
	}
	if join := ev.Join; join != nil {
		words = append(words, fmt.Sprintf("in %.0f ms", join.MS))
		for _, step := range join.Steps {
			words = append(words, fmt.Sprintf("%s %.0f ms", step.Name, step.MS))
		}
	}
	if finding := ev.Finding; finding != nil {
		words = append(words, fmt.Sprintf("%s %s: %s", finding.Severity, finding.Code, finding.Text))
	}
	if moved := ev.Sockets; moved != nil {
		words = append(words, fmt.Sprintf("%d WebSockets of %d shards: %d with a gap, %d lost, interrupted for up to %.0f ms", moved.Sockets, moved.Shards, moved.Gaps, moved.Lost, moved.LongestMS))
	}
	if action := ev.Action; action != nil {
		words = append(words, fmt.Sprintf("%s by %s from %s: %d", action.What, action.By, action.From, action.Status))
		if action.Reason != "" {
			words = append(words, strconv.Quote(action.Reason))
		}
		if action.Suppressed > 0 {
			words = append(words, fmt.Sprintf("(and %d refused before)", action.Suppressed))
		}
	}
	return strings.Map(printable, strings.Join(words, "  "))
}

// formatChange formats a map change: the moved shards by pair of nodes, the queued requests, and the
// duration of each phase.
func formatChange(change *event.Change) []string {
	words := []string{fmt.Sprintf("moved %d (here +%d -%d)", change.Moved, change.Gained, change.Released)}
	for i, moves := range change.Moves {
		if i == maxShownMoves {
			words = append(words, "…")
			break
		}
		from := cmp.Or(ownerName(moves.From, moves.FromInstance), "orphaned")
		words = append(words, fmt.Sprintf("%s→%s %d", from, ownerName(moves.To, moves.ToInstance), moves.Shards))
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
