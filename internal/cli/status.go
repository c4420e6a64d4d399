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
func (c *statusCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(session.out, status)
	} else {
		err = writeStatusView(session.out, status)
	}
	return cmp.Or(err, outageError(status.Findings))
}

// outageError returns errOutage if a finding is an outage.
func outageError(findings []diagnosis.Finding) error {
	if diagnosis.Worst(findings) == diagnosis.Outage {
		return errOutage
	}
	return nil
}

// writeStatusView prints the findings, the status and the nodes.
func writeStatusView(w io.Writer, status api.Status) error {
	if err := writeFindings(w, status.Findings); err != nil {
		return err
	}
	if err := writeStatus(w, status); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return writeNodes(w, status.Nodes)
}

// writeFindings prints one line for each finding, followed by an empty line.
func writeFindings(w io.Writer, findings []diagnosis.Finding) error {
	for _, finding := range findings {
		line := strings.ToUpper(finding.Severity.String()) + " " + finding.String()
		if _, err := fmt.Fprintln(w, strings.Map(printable, line)); err != nil {
			return err
		}
	}
	if len(findings) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w)
	return err
}

// clusterStateText returns the state of the cluster with its reason.
func clusterStateText(status api.Status) string {
	if status.ClusterReason == "" {
		return status.ClusterState
	}
	return status.ClusterState + " (" + status.ClusterReason + ")"
}

// leadershipText returns since when the leader leads, and how long its lease lasts; empty if unknown.
func leadershipText(status api.Status) string {
	if status.LeaderSince == nil || status.LeaderLeaseMS == nil {
		return ""
	}
	return fmt.Sprintf(", since %s, lease for %v", status.LeaderSince.Format(time.RFC3339), time.Duration(*status.LeaderLeaseMS)*time.Millisecond)
}

// writeStatus prints the state of one node, one row for each property.
func writeStatus(w io.Writer, status api.Status) error {
	leader := status.Leader
	if leader == "" {
		leader = "none known"
	}
	lease := "none"
	if status.LeaseMS > 0 {
		lease = "for " + (time.Duration(status.LeaseMS) * time.Millisecond).String()
	}
	table := newTable(w)
	table.row("node", fmt.Sprintf("%s (boot %d, %s)", status.Node, status.Boot, status.Role))
	table.row("cluster", status.Cluster)
	table.row("version", status.Version)
	table.row("state", status.State)
	table.row("cluster state", clusterStateText(status))
	table.row("leader", fmt.Sprintf("%s (term %d%s)", leader, status.Term, leadershipText(status)))
	table.row("map", fmt.Sprintf("epoch %d, last proposed %d", status.Epoch, status.Proposed))
	ownership := "here"
	if status.Shards.Owned > 0 && status.LeaseMS == 0 {
		ownership = "assigned to this node, and unavailable without a lease"
	}
	table.row("shards", fmt.Sprintf("%d of %d %s, %d moving, %d orphaned, %d unavailable", status.Shards.Owned, status.Shards.Total, ownership, status.Shards.Moving, status.Shards.Orphaned, status.Shards.Unavailable))
	if status.Shards.Held > 0 {
		table.row("held", fmt.Sprintf("%d of the shards here, by the app (Shardway-Hold)", status.Shards.Held))
	}
	table.row("lease", lease)
	if status.Timing != nil {
		table.row("settings", fmt.Sprintf("lease %s, dead-after %s, takeover %s, rebalance mode %s", status.Timing.Lease, status.Timing.DeadAfter, status.Timing.Takeover, status.Timing.RebalanceMode))
	}
	if status.Keys != nil {
		table.row("keys", status.Keys.String())
	}
	table.row("queued", fmt.Sprintf("%d requests, %d bytes", status.Queue.Queued, status.Queue.Bytes))
	table.row("websockets", fmt.Sprintf("%d at the app; of clients here %d resumable, %d of them detached, and %d event streams", status.Sockets.App, status.Sockets.Attached+status.Sockets.Detached, status.Sockets.Detached, status.Sockets.Streams))
	table.row("up", (time.Duration(status.UptimeS) * time.Second).String())
	return table.flush()
}
