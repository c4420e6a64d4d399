package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"shardway/admin"
)

type statusCommand struct{ target }

// Run writes the node's view.
func (c *statusCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	st, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, st)
	}
	if err := writeStatus(s.out, st); err != nil {
		return err
	}
	if _, err := io.WriteString(s.out, "\n"); err != nil {
		return err
	}
	if err := writeNodes(s.out, st.Nodes); err != nil {
		return err
	}
	for _, w := range st.Warnings {
		if _, err := fmt.Fprintf(s.out, "\nwarning: %s\n", strings.Map(printable, w)); err != nil {
			return err
		}
	}
	return nil
}

func writeStatus(w io.Writer, st admin.Status) error {
	leader := st.Leader
	if leader == "" {
		leader = "none known"
	}
	lease := "none"
	if st.LeaseMS > 0 {
		lease = "for " + (time.Duration(st.LeaseMS) * time.Millisecond).String()
	}
	t := newTable(w)
	t.row("node", fmt.Sprintf("%s (boot %d, %s)", st.Node, st.Boot, st.Role))
	t.row("cluster", st.Cluster)
	t.row("version", st.Version)
	t.row("state", st.State)
	t.row("leader", fmt.Sprintf("%s (term %d)", leader, st.Term))
	t.row("map", fmt.Sprintf("epoch %d, last proposed %d", st.Epoch, st.Proposed))
	t.row("shards", fmt.Sprintf("%d of %d here, %d moving, %d orphaned", st.Shards.Owned, st.Shards.Total, st.Shards.Moving, st.Shards.Orphaned))
	t.row("lease", lease)
	if st.Timing != nil {
		t.row("timing", fmt.Sprintf("lease %s, dead-after %s, fence %s, pause %s", st.Timing.Lease, st.Timing.DeadAfter, st.Timing.Fence, st.Timing.Pause))
	}
	t.row("waiting", fmt.Sprintf("%d requests, %d bytes", st.Queue.Waiting, st.Queue.Bytes))
	t.row("up", (time.Duration(st.UptimeS) * time.Second).String())
	return t.flush()
}
