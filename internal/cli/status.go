package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
)

type statusCommand struct{ target }

// Run prints the status of the node.
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
		err = writeJSON(s.out, st)
	} else {
		err = writeStatusView(s.out, st)
	}
	return cmp.Or(err, outageError(st.Findings))
}

// outageError returns errOutage if a finding is an outage.
func outageError(all []diagnosis.Finding) error {
	if diagnosis.Worst(all) == diagnosis.Outage {
		return errOutage
	}
	return nil
}

// writeStatusView prints the findings, the status and the nodes.
func writeStatusView(w io.Writer, st api.Status) error {
	if err := writeFindings(w, st.Findings); err != nil {
		return err
	}
	if err := writeStatus(w, st); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return writeNodes(w, st.Nodes)
}

// writeFindings prints one line for each finding, followed by an empty line.
func writeFindings(w io.Writer, all []diagnosis.Finding) error {
	for _, f := range all {
		line := strings.ToUpper(f.Severity.String()) + " " + f.String()
		if _, err := fmt.Fprintln(w, strings.Map(printable, line)); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w)
	return err
}

func writeStatus(w io.Writer, st api.Status) error {
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
	here := "here"
	if st.Shards.Owned > 0 && st.LeaseMS == 0 {
		here = "assigned to this node, and unavailable without a lease"
	}
	t.row("shards", fmt.Sprintf("%d of %d %s, %d moving, %d orphaned, %d unavailable", st.Shards.Owned, st.Shards.Total, here, st.Shards.Moving, st.Shards.Orphaned, st.Shards.Unavailable))
	if st.Shards.Held > 0 {
		t.row("held", fmt.Sprintf("%d of the shards here, by the app (Shardway-Hold)", st.Shards.Held))
	}
	t.row("lease", lease)
	if st.Timing != nil {
		t.row("settings", fmt.Sprintf("lease %s, dead-after %s, takeover %s, rebalance mode %s", st.Timing.Lease, st.Timing.DeadAfter, st.Timing.Takeover, st.Timing.RebalanceMode))
	}
	if st.Keys != nil {
		t.row("keys", st.Keys.String())
	}
	t.row("queued", fmt.Sprintf("%d requests, %d bytes", st.Queue.Queued, st.Queue.Bytes))
	t.row("websockets", fmt.Sprintf("%d at the app; of clients here %d resumable, %d of them detached, and %d event streams", st.Sockets.App, st.Sockets.Attached+st.Sockets.Detached, st.Sockets.Detached, st.Sockets.Streams))
	t.row("up", (time.Duration(st.UptimeS) * time.Second).String())
	return t.flush()
}
