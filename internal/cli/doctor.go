package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/diagnosis"
)

const (
	// clockInterval is the time between two readings of the clocks of all nodes. With network delays
	// of a few milliseconds, the error of the measured rates is below 1 %.
	clockInterval = 2 * time.Second
	// doctorDialTimeout limits each connection attempt from this machine.
	doctorDialTimeout = time.Second
	// maxConcurrentDials limits the concurrent connection attempts.
	maxConcurrentDials = 16
)

type doctorCommand struct{ target }

// Help describes the comparison.
func (c *doctorCommand) Help() string {
	return `One node queries all other nodes at their peer ports. The command compares their maps,
versions, leaders, settings and clock rates, and lists the ports that are not reachable
from each node and from this machine. It takes a few seconds and changes nothing.
docs/operate/troubleshoot.md lists all findings.`
}

// doctorReport is the JSON output of the command.
type doctorReport struct {
	From         string                      `json:"from"`
	Reports      []diagnosis.Report          `json:"reports"`
	Unresponsive []string                    `json:"unresponsive"`
	Unreached    []diagnosis.UnreachablePort `json:"unreached_from_here"`
	Findings     []diagnosis.Finding         `json:"findings"`
}

// Run collects reports from all nodes, compares them and prints the findings.
func (c *doctorCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	report, err := diagnose(ctx, client)
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(session.out, report)
	} else {
		err = writeDoctorReport(session.out, report)
	}
	if err != nil {
		return err
	}
	return outageError(report.Findings)
}

// diagnose collects two reports of each node, clockInterval apart, and compares them.
func diagnose(ctx context.Context, client *client.Client) (report doctorReport, err error) {
	first, err := client.Checkup(ctx, false)
	if err != nil {
		return report, err
	}
	intervalStart := time.Now() // a node returns the same report for a short time, so the interval starts here
	withPorts, err := client.Checkup(ctx, true)
	if err != nil {
		return report, err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return report, err
	}
	unreached := dialPorts(ctx, status.Nodes)
	select {
	case <-time.After(time.Until(intervalStart.Add(clockInterval))):
	case <-ctx.Done():
		return report, ctx.Err()
	}
	second, err := client.Checkup(ctx, false)
	if err != nil {
		return report, err
	}
	copyUnreachablePorts(second.Reports, withPorts.Reports)
	report = doctorReport{From: second.From, Reports: second.Reports, Unresponsive: second.Unresponsive, Unreached: unreached}
	report.Findings = diagnosis.Merge(diagnosis.MergedReports(second), diagnosis.Compare(first, second, unreached))
	return report, nil
}

// copyUnreachablePorts sets the unreachable ports of each report to those in the report of the same
// node in source.
func copyUnreachablePorts(reports, source []diagnosis.Report) {
	for i := range reports {
		isSameNode := func(other diagnosis.Report) bool { return other.Node == reports[i].Node }
		if index := slices.IndexFunc(source, isSameNode); index >= 0 {
			reports[i].UnreachablePorts = source[index].UnreachablePorts
		}
	}
}

// dialPorts connects to the announced ports of all nodes that have not failed or left. It returns the
// ports that this machine cannot reach, sorted by node and port.
func dialPorts(ctx context.Context, nodes []api.Node) []diagnosis.UnreachablePort {
	var mu sync.Mutex
	var wg sync.WaitGroup
	unreachable := []diagnosis.UnreachablePort{}
	slots := make(chan struct{}, maxConcurrentDials)
	for _, node := range nodes {
		if node.State == "failed" || node.State == "left" {
			continue
		}
		for _, port := range []string{"peer", "http", "admin"} {
			addr := node.Endpoints[port]
			if addr == "" {
				continue
			}
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				dialer := net.Dialer{Timeout: doctorDialTimeout}
				conn, err := dialer.DialContext(ctx, "tcp", addr)
				if err == nil {
					_ = conn.Close()
					return
				}
				mu.Lock()
				defer mu.Unlock()
				unreachable = append(unreachable, diagnosis.UnreachablePort{Node: node.ID, Port: port, Addr: addr, Why: describeDialError(err)})
			})
		}
	}
	wg.Wait()
	slices.SortFunc(unreachable, func(a, b diagnosis.UnreachablePort) int { return strings.Compare(a.Node+" "+a.Port, b.Node+" "+b.Port) })
	return unreachable
}

// describeDialError describes why a connection failed.
func describeDialError(err error) string {
	var timeout net.Error
	var errno syscall.Errno
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %v", doctorDialTimeout)
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}

// writeDoctorReport prints the findings, and one row for each node.
func writeDoctorReport(w io.Writer, report doctorReport) error {
	if err := writeFindings(w, report.Findings); err != nil {
		return err
	}
	if len(report.Findings) == 0 {
		if _, err := fmt.Fprintf(w, "no findings on the nodes that responded\n\n"); err != nil {
			return err
		}
	}
	table := newTable(w, "NODE", "VERSION", "STATE", "LEADER", "TERM", "MAP", "FINDS", "NOT-REACHED")
	for _, r := range report.Reports {
		table.row(r.Node, r.Version, r.State, r.Leader, r.Term, r.Epoch, len(r.Findings), len(r.UnreachablePorts))
	}
	for _, id := range report.Unresponsive {
		table.row(id, "", "unresponsive", "", "", "", "", "")
	}
	return table.flush()
}
