package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"shardway/admin/api"
)

type processesCommand struct {
	target
}

// Help explains the columns.
func (c *processesCommand) Help() string {
	return `Lists the processes that the node started with --exec. A key is shown as its key_hash, or
as text with --access-log-keys. IDLE is the time since the last request, stream or WebSocket.`
}

// Run prints the processes and the keys whose process fails.
func (c *processesCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Processes(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	table := newTable(session.out, "SHARD", "KEY", "STATE", "PID", "ADDRESS", "UPTIME", "IDLE", "DIRECTORY")
	for i := range list.Processes {
		process := &list.Processes[i]
		uptime := "-"
		if process.StartedAt != nil {
			uptime = time.Since(*process.StartedAt).Round(time.Second).String()
		}
		idle := (time.Duration(process.IdleMS) * time.Millisecond).Round(time.Second)
		table.row(process.Shard, shownKey(process.Key, process.KeyHash), process.State, process.PID, process.Addr, uptime, idle, strings.Map(printable, process.Dir))
	}
	if err = table.flush(); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(session.out, "%d of %d processes\n", len(list.Processes), list.Max); err != nil || len(list.Failing) == 0 {
		return err
	}
	if _, err = fmt.Fprintln(session.out); err != nil {
		return err
	}
	return writeFailing(session, list.Failing)
}

// writeFailing prints the keys or shards whose process fails.
func writeFailing(session *session, failing []api.FailingProcess) error {
	table := newTable(session.out, "SHARD", "KEY", "FAILURES", "ERROR")
	for _, failure := range failing {
		table.row(failure.Shard, shownKey(failure.Key, failure.KeyHash), failure.Failures, strings.Map(printable, failure.Error))
	}
	return table.flush()
}

// shownKey returns the key if it is known, and otherwise its hash.
func shownKey(key, hash string) string {
	switch {
	case key != "":
		return strings.Map(printable, key)
	case hash != "":
		return hash
	}
	return "-"
}
