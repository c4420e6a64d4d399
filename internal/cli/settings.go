package cli

import (
	"context"
	"fmt"
	"io"

	"shardway/admin"
)

type settingsCommand struct {
	Lease         string `help:"How long a node may serve after hearing from the leader." placeholder:"DURATION"`
	DeadAfter     string `help:"When a silent node's shards may be taken without evidence."    placeholder:"DURATION"`
	Takeover      string `help:"When the shards of a crashed node may be taken."               placeholder:"timeout|lease|immediate"`
	RebalanceMode string `help:"Which shards wait while the shard map changes."                      placeholder:"incremental|stop-the-world"`
	target
}

// Help tells what a change does.
func (c *settingsCommand) Help() string {
	return `These four guard that a shard has one owner, so they are facts of the cluster:
its founder's flags gave the first ones, and the flags of other nodes count for
nothing. Without a flag the command shows them, with what was in force before and
which entry of the log changed it.

A change goes through the leader. Until the larger of the two dead-afters has
passed, waits go by the larger of each and by the later takeover, and no further
change is taken; nor is one, for as long, after an election.`
}

// Run shows the timing, or changes it first.
func (c *settingsCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	change := admin.Timing{Lease: c.Lease, DeadAfter: c.DeadAfter, Takeover: c.Takeover, RebalanceMode: c.RebalanceMode}
	var t admin.TimingState
	if change == (admin.Timing{}) {
		t, err = client.Timing(ctx)
	} else {
		t, err = client.Retime(ctx, change)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, t)
	}
	return writeTiming(s.out, t)
}

func writeTiming(w io.Writer, t admin.TimingState) error {
	before, counts := "BEFORE", ""
	switch t.BeforeCounts {
	case "": // no leader has told
	case "0s":
		before, counts = "BEFORE (over)", "; what was before does not count any more"
	default:
		before, counts = "BEFORE (counts)", "; waits go by the larger of both for another "+t.BeforeCounts
	}
	out := newTable(w, "SETTING", "IN FORCE", before)
	out.row("lease", t.Lease, t.Before.Lease)
	out.row("dead-after", t.DeadAfter, t.Before.DeadAfter)
	out.row("takeover", t.Takeover, t.Before.Takeover)
	out.row("rebalance-mode", t.RebalanceMode, t.Before.RebalanceMode)
	if err := out.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nin force since entry %d of the log%s\n", t.Since, counts)
	return err
}
