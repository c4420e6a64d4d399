package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
)

// topShards is how many of the busiest shards are shown.
const topShards = 10

type topCommand struct {
	Interval time.Duration `default:"1s" help:"Time between two updates." placeholder:"DURATION"`
	Once     bool          `help:"Show it once and exit, as without a terminal."`
	target
}

// Help tells how it ends.
func (c *topCommand) Help() string {
	return `Shows findings, nodes with their load, and the busiest shards, and updates the screen
until q or Ctrl-C. Rates are means over about ten seconds.`
}

// scene is the JSON of one look.
type scene struct {
	Status api.Status  `json:"status"`
	Hot    api.HotList `json:"hot"`
}

// Run looks until q is pressed, or once.
func (c *topCommand) Run(ctx context.Context, s *session) error {
	if c.Interval <= 0 {
		return misuse(fmt.Sprintf("--interval %s must be greater than 0: give a value such as 1s", c.Interval))
	}
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.JSON || c.Once || !terminal(s.out) {
		x, err := lookAround(ctx, client)
		if err != nil {
			return err
		}
		write := writeScene
		if c.JSON {
			write = func(w io.Writer, x scene) error { return writeJSON(w, x) }
		}
		return cmp.Or(write(s.out, x), outage(x.Status.Findings))
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	restore := onKey(os.Stdin, 'q', quit)
	defer restore()
	return c.again(ctx, s.out, client)
}

// again shows one look after the other, from the upper left corner. A node that does not
// answer is asked again.
func (c *topCommand) again(ctx context.Context, w io.Writer, client *client.Client) error {
	const home, rest = "\x1b[H", "\x1b[J" // where to write from, and what to clear then
	for {
		var b bytes.Buffer
		x, err := lookAround(ctx, client)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was quit
		case err != nil && !passing(err):
			return err
		case err != nil:
			_, _ = fmt.Fprintln(&b, err) // to memory
		default:
			err = writeScene(&b, x)
		}
		text := strings.ReplaceAll(b.String(), "\n", "\x1b[K\n")
		if _, werr := fmt.Fprintf(w, "%s%s%s", home, text, rest); werr != nil {
			return errors.Join(err, werr)
		}
		_ = pause(ctx, c.Interval) // its end is looked at above
	}
}

func lookAround(ctx context.Context, client *client.Client) (x scene, err error) {
	if x.Status, err = client.Status(ctx); err != nil {
		return x, err
	}
	x.Hot, err = client.Hot(ctx)
	return x, err
}

// load is what a node does.
type load struct {
	requests, busy, bytes float64
	sockets               int32
}

func writeScene(w io.Writer, x scene) error {
	if err := writeFindings(w, x.Status.Findings); err != nil {
		return err
	}
	if err := writeSummary(w, x.Status); err != nil {
		return err
	}
	loads := map[string]load{}
	for _, h := range x.Hot.Shards {
		l := loads[h.Node]
		l.requests, l.busy, l.bytes, l.sockets = l.requests+h.Requests, l.busy+h.Busy, l.bytes+h.Bytes, l.sockets+h.Sockets
		loads[h.Node] = l
	}
	t := newTable(w, "\nNODE", "STATE", "ROLE", "SHARDS", "APP", "REQUESTS/S", "BUSY", "KB/S", "WEBSOCKETS")
	for _, n := range x.Status.Nodes {
		l := loads[n.ID]
		t.row(n.ID, n.State, n.Role, n.Shards, n.App, rate(l.requests), fmt.Sprintf("%.2f", l.busy), rate(l.bytes/1000), l.sockets)
	}
	if err := t.flush(); err != nil {
		return err
	}
	t = newTable(w, "\nSHARD", "NODE", "REQUESTS/S", "BUSY", "KB/S", "WEBSOCKETS")
	for _, h := range x.Hot.Shards[:min(len(x.Hot.Shards), topShards)] {
		t.row(h.Shard, h.Node, rate(h.Requests), fmt.Sprintf("%.2f", h.Busy), rate(h.Bytes/1000), h.Sockets)
	}
	return t.flush()
}

func rate(perSecond float64) string { return fmt.Sprintf("%.1f", perSecond) }

// writeSummary writes what the whole cluster is at, in two lines.
func writeSummary(w io.Writer, st api.Status) error {
	_, err := fmt.Fprintf(w, "%s sees %s, leader %s (term %d), map %d\n%d shards, %d moving, %d orphaned; queued here: %s\n",
		clean(st.Node), clean(st.State), leaderName(st.Leader), st.Term, st.Epoch, st.Shards.Total, st.Shards.Moving, st.Shards.Orphaned, counted(st.Queue.Queued, "request"))
	return err
}

// clean keeps what a node says from moving the cursor.
func clean(s string) string { return strings.Map(printable, s) }

func leaderName(id string) string {
	if id == "" {
		return "none known"
	}
	return clean(id)
}
