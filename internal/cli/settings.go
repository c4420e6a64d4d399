package cli

import (
	"context"
	"fmt"
	"io"

	"shardway/admin/api"
)

type settingsCommand struct {
	Lease         string `help:"Time for which a node may serve after a response of the leader." placeholder:"DURATION"`
	DeadAfter     string `help:"Time after which shards of an unresponsive node are taken over without evidence of a crash."    placeholder:"DURATION"`
	Takeover      string `help:"Condition for taking over the shards of a crashed node."               placeholder:"timeout|lease|immediate"`
	RebalanceMode string `help:"Shards whose requests wait while the shard map changes."                      placeholder:"incremental|stop-the-world"`
	reasonFlag
	target
}

// Help describes the settings and the effect of a change.
func (c *settingsCommand) Help() string {
	return `These four settings ensure that a shard has one owner, so they belong to the cluster.
The node that started the cluster set them with its flags, and the flags of other nodes
have no effect. Without a flag, the command shows the settings, the previous settings and
the log entry that changed them.

A change goes through the leader. Until the larger of the two values of dead-after has
passed, the cluster uses the larger value of each setting and the later takeover. During
this time, and for as long after an election, the leader accepts no further change.`
}

// Run changes the settings that the flags contain, and prints all settings.
func (c *settingsCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	change := api.Timing{Lease: c.Lease, DeadAfter: c.DeadAfter, Takeover: c.Takeover, RebalanceMode: c.RebalanceMode}
	if change == (api.Timing{}) && c.Reason != "" {
		return usageError("--reason belongs to a change: give a setting as well, as in: shardway settings --dead-after 5s --reason TEXT")
	}
	var timing api.TimingState
	if change == (api.Timing{}) {
		timing, err = client.Timing(ctx)
	} else {
		timing, err = client.ChangeTiming(ctx, change, c.Reason)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, timing)
	}
	return writeTiming(session.out, timing)
}

// writeTiming prints each setting with its current and its previous value.
func writeTiming(w io.Writer, timing api.TimingState) error {
	previousHeading, note := "BEFORE", ""
	switch timing.BeforeCounts {
	case "": // unknown without a leader
	case "0s":
		previousHeading, note = "BEFORE (over)", "; the previous values no longer apply"
	default:
		previousHeading, note = "BEFORE (counts)", "; the larger of both values applies for another "+timing.BeforeCounts
	}
	table := newTable(w, "SETTING", "IN FORCE", previousHeading)
	table.row("lease", timing.Lease, timing.Before.Lease)
	table.row("dead-after", timing.DeadAfter, timing.Before.DeadAfter)
	table.row("takeover", timing.Takeover, timing.Before.Takeover)
	table.row("rebalance-mode", timing.RebalanceMode, timing.Before.RebalanceMode)
	if err := table.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nin force since entry %d of the log%s\n", timing.Since, note)
	return err
}
