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
	// clockSpan is how long the clocks of the nodes are compared for: the answers to two
	// questions on a network of milliseconds leave an error below one percent.
	clockSpan = 2 * time.Second
	// doctorDial is how long a port has to take a connection from here.
	doctorDial = time.Second
)

type doctorCommand struct{ target }

// Help tells what is compared.
func (c *doctorCommand) Help() string {
	return `One node queries all other nodes at their peer ports. The command compares their maps,
versions, leaders, settings and clock rates, and lists the ports that are not reachable
from each node and from this machine. It takes a few seconds and changes nothing.
docs/operate/troubleshoot.md lists all findings.`
}

// doctorReport is the JSON of a doctor.
type doctorReport struct {
	From         string              `json:"from"`
	Reports      []diagnosis.Report  `json:"reports"`
	Unresponsive []string            `json:"unresponsive"`
	Here         []diagnosis.Reach   `json:"unreached_from_here"`
	Findings     []diagnosis.Finding `json:"findings"`
}

// Run asks, compares and writes what is found.
func (c *doctorCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	d, err := diagnose(ctx, client)
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(s.out, d)
	} else {
		err = writeDiagnosis(s.out, d)
	}
	if err != nil {
		return err
	}
	return outage(d.Findings)
}

func diagnose(ctx context.Context, client *client.Client) (d doctorReport, err error) {
	first, err := client.Checkup(ctx, false)
	if err != nil {
		return d, err
	}
	began := time.Now() // a node gives the same answer for a while
	full, err := client.Checkup(ctx, true)
	if err != nil {
		return d, err
	}
	st, err := client.Status(ctx)
	if err != nil {
		return d, err
	}
	here := reachedFromHere(ctx, st.Nodes)
	select {
	case <-time.After(time.Until(began.Add(clockSpan))):
	case <-ctx.Done():
		return d, ctx.Err()
	}
	second, err := client.Checkup(ctx, false)
	if err != nil {
		return d, err
	}
	for i, r := range second.Reports {
		if k := slices.IndexFunc(full.Reports, func(x diagnosis.Report) bool { return x.Node == r.Node }); k >= 0 {
			second.Reports[i].Unreached = full.Reports[k].Unreached
		}
	}
	d = doctorReport{From: second.From, Reports: second.Reports, Unresponsive: second.Unresponsive, Here: here}
	d.Findings = diagnosis.Together(diagnosis.Merged(second), diagnosis.Compare(first, second, here))
	return d, nil
}

// reachedFromHere tries what the nodes that are there announce for others to reach.
func reachedFromHere(ctx context.Context, nodes []api.Node) []diagnosis.Reach {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := []diagnosis.Reach{}
	places := make(chan struct{}, 16)
	for _, n := range nodes {
		if n.State == "failed" || n.State == "left" {
			continue
		}
		for _, port := range []string{"peer", "http", "admin"} {
			addr := n.Endpoints[port]
			if addr == "" {
				continue
			}
			wg.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				d := net.Dialer{Timeout: doctorDial}
				conn, err := d.DialContext(ctx, "tcp", addr)
				if err == nil {
					_ = conn.Close()
					return
				}
				mu.Lock()
				defer mu.Unlock()
				out = append(out, diagnosis.Reach{Node: n.ID, Port: port, Addr: addr, Why: refusal(err)})
			})
		}
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b diagnosis.Reach) int { return strings.Compare(a.Node+" "+a.Port, b.Node+" "+b.Port) })
	return out
}

// refusal is why no connection came about.
func refusal(err error) string {
	var timeout net.Error
	var no syscall.Errno
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %v", doctorDial)
	case errors.As(err, &no):
		return no.Error()
	}
	return err.Error()
}

func writeDiagnosis(w io.Writer, d doctorReport) error {
	if err := writeFindings(w, d.Findings); err != nil {
		return err
	}
	if len(d.Findings) == 0 {
		if _, err := fmt.Fprintf(w, "nothing is the matter, as far as the nodes tell\n\n"); err != nil {
			return err
		}
	}
	t := newTable(w, "NODE", "VERSION", "STATE", "LEADER", "TERM", "MAP", "FINDS", "NOT-REACHED")
	for _, r := range d.Reports {
		t.row(r.Node, r.Version, r.State, r.Leader, r.Term, r.Epoch, len(r.Findings), len(r.Unreached))
	}
	for _, id := range d.Unresponsive {
		t.row(id, "", "unresponsive", "", "", "", "", "")
	}
	return t.flush()
}
