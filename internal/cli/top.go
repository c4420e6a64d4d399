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
	"shardway/internal/cli/terminal"
)

const (
	// topShards is the number of shards on the screen.
	topShards = 10
	// bytesPerKB converts byte rates to the column KB/S.
	bytesPerKB = 1000
)

type topCommand struct {
	Interval time.Duration `default:"1s" help:"Time between two updates." placeholder:"DURATION"`
	Once     bool          `help:"Show the state once and exit, as without a terminal."`
	target
}

// Help describes the screen.
func (c *topCommand) Help() string {
	return `Shows findings, nodes with their load, and the busiest shards, and updates the screen
until q or Ctrl-C. Rates are means over about ten seconds. The node of a shard is shown
as NODE/INSTANCE if a node has several app instances.`
}

// snapshot is the state on the screen, and the JSON output.
type snapshot struct {
	Status api.Status  `json:"status"`
	Hot    api.HotList `json:"hot"`
}

// Run updates the screen until q is pressed, or prints one snapshot.
func (c *topCommand) Run(ctx context.Context, session *session) error {
	if c.Interval <= 0 {
		return usageError(fmt.Sprintf("--interval %s must be greater than 0: give a value such as 1s", c.Interval))
	}
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.JSON || c.Once || !isTerminal(session.out) {
		current, err := fetchSnapshot(ctx, client)
		if err != nil {
			return err
		}
		write := writeSnapshot
		if c.JSON {
			write = func(w io.Writer, data snapshot) error { return writeJSON(w, data) }
		}
		return cmp.Or(write(session.out, current), outageError(current.Status.Findings))
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	restore := terminal.WatchKey(os.Stdin, 'q', quit)
	defer restore()
	return c.refresh(ctx, session.out, client)
}

// refresh prints snapshots until ctx ends, each over the previous one. It retries if the node does not
// respond.
func (c *topCommand) refresh(ctx context.Context, w io.Writer, client *client.Client) error {
	const home, clearRest = "\x1b[H", "\x1b[J" // ANSI sequences: move the cursor to the top left; clear below
	for {
		var screen bytes.Buffer
		current, err := fetchSnapshot(ctx, client)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the user quit
		case err != nil && !isTemporary(err):
			return err
		case err != nil:
			_, _ = fmt.Fprintln(&screen, err) // to memory
		default:
			err = writeSnapshot(&screen, current)
		}
		text := strings.ReplaceAll(screen.String(), "\n", "\x1b[K\n")
		if _, writeErr := fmt.Fprintf(w, "%s%s%s", home, text, clearRest); writeErr != nil {
			return errors.Join(err, writeErr)
		}
		_ = sleep(ctx, c.Interval) // the loop checks ctx
	}
}

// fetchSnapshot requests the status of the node and the load of all shards.
func fetchSnapshot(ctx context.Context, client *client.Client) (snapshot snapshot, err error) {
	if snapshot.Status, err = client.Status(ctx); err != nil {
		return snapshot, err
	}
	snapshot.Hot, err = client.Hot(ctx)
	return snapshot, err
}

// nodeLoad is the load of a node: the sum over its shards.
type nodeLoad struct {
	requests float64 // per second
	busy     float64 // mean number of concurrent requests
	bytes    float64 // per second
	sockets  int32
}

// loadByNode adds the load of the shards of each node.
func loadByNode(shards []api.HotShard) map[string]nodeLoad {
	loads := map[string]nodeLoad{}
	for _, shard := range shards {
		load := loads[shard.Node]
		load.requests += shard.Requests
		load.busy += shard.Busy
		load.bytes += shard.Bytes
		load.sockets += shard.Sockets
		loads[shard.Node] = load
	}
	return loads
}

// writeSnapshot prints the findings, the nodes with their load, and the busiest shards.
func writeSnapshot(w io.Writer, snapshot snapshot) error {
	if err := writeFindings(w, snapshot.Status.Findings); err != nil {
		return err
	}
	if err := writeSummary(w, snapshot.Status); err != nil {
		return err
	}
	loads := loadByNode(snapshot.Hot.Shards)
	table := newTable(w, "\nNODE", "STATE", "ROLE", "SHARDS", "APP", "REQUESTS/S", "BUSY", "KB/S", "WEBSOCKETS")
	for _, node := range snapshot.Status.Nodes {
		load := loads[node.ID]
		table.row(node.ID, node.State, node.Role, node.Shards, node.App, formatRate(load.requests), fmt.Sprintf("%.2f", load.busy), formatRate(load.bytes/bytesPerKB), load.sockets)
	}
	if err := table.flush(); err != nil {
		return err
	}
	table = newTable(w, "\nSHARD", "NODE", "REQUESTS/S", "BUSY", "KB/S", "WEBSOCKETS")
	for _, shard := range snapshot.Hot.Shards[:min(len(snapshot.Hot.Shards), topShards)] {
		table.row(shard.Shard, ownerName(shard.Node, shard.Instance), formatRate(shard.Requests), fmt.Sprintf("%.2f", shard.Busy), formatRate(shard.Bytes/bytesPerKB), shard.Sockets)
	}
	return table.flush()
}

// formatRate formats a rate with one decimal place.
func formatRate(perSecond float64) string { return fmt.Sprintf("%.1f", perSecond) }

// writeSummary prints the state of the cluster in two lines.
func writeSummary(w io.Writer, status api.Status) error {
	_, err := fmt.Fprintf(w, "%s sees %s, leader %s (term %d), map %d\n%d shards, %d moving, %d orphaned; queued here: %s\n",
		sanitize(status.Node), sanitize(status.State), leaderName(status.Leader), status.Term, status.Epoch, status.Shards.Total, status.Shards.Moving, status.Shards.Orphaned, pluralize(status.Queue.Queued, "request"))
	return err
}

// sanitize replaces the control characters in text from a node.
func sanitize(s string) string { return strings.Map(printable, s) }

// leaderName returns the ID of the leader for text output.
func leaderName(id string) string {
	if id == "" {
		return "none known"
	}
	return sanitize(id)
}
