//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shardway/e2e/kit/cluster"
)

// settle is how long clusters run before they are measured, unless the measurement itself
// is shorter. A starting node uses all processors for five seconds, and contacts the other
// nodes often for half a minute. That must not be part of the measurement.
const settle = 40 * time.Second

// idleCluster is a cluster of three nodes that receives no requests.
type idleCluster struct {
	name  string
	ids   []string
	procs []*process
	admin []string
}

// idleCost is the cost of an idle node (a node at rest).
type idleCost struct {
	share    float64 // of a core, in percent
	switches float64 // context switches of its threads per second
}

// idle measures the cost of idle nodes. The clusters run at the same time, so that other
// load of the machine affects all of them.
func (b *benchRun) idle(ctx context.Context, opts options, t *table) error {
	program, err := b.build(ctx, opts.node)
	if err != nil {
		return err
	}
	if err := b.startBackends(ctx); err != nil {
		return err
	}
	all := []*idleCluster{{name: "shardway"}}
	programs := []string{program}
	if opts.beside != "" {
		all, programs = append(all, &idleCluster{name: beside}), append(programs, opts.beside)
	}
	for i, idle := range all {
		if err := b.startSilent(ctx, idle, programs[i]); err != nil {
			return err
		}
	}
	t.machine(nil)
	if err := pass(ctx, min(settle, opts.idle)); err != nil {
		return err
	}
	rounds := make([][][]idleCost, len(all)) // by cluster, then by round
	for range opts.rounds {
		before := loadAverage()
		measured, err := measureRest(ctx, all, opts.idle)
		if err != nil {
			return err
		}
		for i := range all {
			rounds[i] = append(rounds[i], measured[i])
		}
		t.idle(all, measured, fmt.Sprintf("three nodes without requests, %v, load %s to %s", opts.idle, before, loadAverage()))
	}
	if opts.rounds > 1 {
		means := make([][]idleCost, len(all))
		for i := range all {
			means[i] = mean(rounds[i])
		}
		t.idle(all, means, fmt.Sprintf("means of %d rounds", opts.rounds))
	}
	return nil
}

// startSilent starts a cluster of three nodes.
func (b *benchRun) startSilent(ctx context.Context, idle *idleCluster, program string) error {
	idle.ids = []string{"a", "b", "c"}
	at, err := b.addrs(perNode * len(idle.ids)) //nolint:contextcheck // probing a port of this machine is over at once
	if err != nil {
		return err
	}
	for i, id := range idle.ids {
		flags := []string{"--bootstrap-expect", strconv.Itoa(len(idle.ids))}
		for j := range idle.ids {
			if j != i {
				flags = append(flags, "--join", at[perNode*j+2])
			}
		}
		process, err := b.startNode(ctx, []string{program, "run", "--upstream", "http://" + b.backends[i]}, id, "silent "+idle.name, at[perNode*i:], flags)
		if err != nil {
			return err
		}
		idle.procs, idle.admin = append(idle.procs, process), append(idle.admin, at[perNode*i+1])
	}
	return await(ctx, idle.name, func() error { return b.serving(ctx, idle.admin[0], idle.ids) })
}

// measureRest waits for d, and returns the cost of each node in that time, by cluster. The
// leader is the first node of its cluster. A change of leadership is an error, because the
// costs of a leader and a follower differ.
func measureRest(ctx context.Context, all []*idleCluster, d time.Duration) ([][]idleCost, error) {
	leaders := make([]string, len(all))
	for i, idle := range all {
		var err error
		if leaders[i], err = idle.leader(ctx); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	before, err1 := useOf(all)
	err2 := pass(ctx, d)
	took := time.Since(began).Seconds()
	after, err3 := useOf(all)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	out := make([][]idleCost, len(all))
	for i, idle := range all {
		if leads, err := idle.leader(ctx); err != nil || leads != leaders[i] {
			return nil, cmp.Or(err, fmt.Errorf("bench: %s: %s led, and then %s", idle.name, leaders[i], leads))
		}
		for j, id := range idle.ids {
			took := idleCost{
				share:    100 * (after[i][j].cpu - before[i][j].cpu).Seconds() / took,
				switches: float64(after[i][j].switches-before[i][j].switches) / took,
			}
			if id == leaders[i] {
				out[i] = slices.Insert(out[i], 0, took)
			} else {
				out[i] = append(out[i], took)
			}
		}
	}
	return out, nil
}

// leader returns the leader of a cluster, according to one of its nodes.
func (s *idleCluster) leader(ctx context.Context) (string, error) {
	body, err := get(ctx, "http://"+s.admin[0]+"/status")
	if err != nil {
		return "", err
	}
	var status cluster.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return "", err
	}
	if status.Leader == "" {
		return "", fmt.Errorf("bench: %s has no leader", s.name)
	}
	return status.Leader, nil
}

// spent is the total cost of a process since its start.
type spent struct {
	cpu      time.Duration
	switches int64
}

func useOf(all []*idleCluster) ([][]spent, error) {
	out := make([][]spent, len(all))
	for i, idle := range all {
		for _, process := range idle.procs {
			pid := process.cmd.Process.Pid
			cpu, err1 := own(pid)
			switches, err2 := switchesOf(pid)
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("%s: %w", idle.name, err)
			}
			out[i] = append(out[i], spent{cpu, switches})
		}
	}
	return out, nil
}

// switchesOf returns how often the threads of a process gave up a processor.
func switchesOf(pid int) (sum int64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file) //nolint:gosec // of a child
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				if err != nil {
					return 0, fmt.Errorf("bench: %s: %w", file, err)
				}
				sum += n
			}
		}
	}
	return sum, nil
}

// loadAverage returns the load average of the machine over the last minute.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg") // empty if the file does not exist
	load, _, _ := strings.Cut(string(b), " ")
	return load
}

// pass waits for d.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mean returns the mean cost of each node over some rounds, the leader first.
func mean(rounds [][]idleCost) []idleCost {
	out := slices.Clone(rounds[len(rounds)-1])
	for i := range out {
		out[i].share, out[i].switches = 0, 0
		for _, r := range rounds {
			out[i].share += r[i].share / float64(len(rounds))
			out[i].switches += r[i].switches / float64(len(rounds))
		}
	}
	return out
}

// idle prints the cost of the nodes of each cluster, the leader first.
func (t *table) idle(all []*idleCluster, measured [][]idleCost, title string) {
	var buf bytes.Buffer
	fmt.Fprintln(&buf, "cluster\tleader, % of a core\tothers\tswitches/s, leader\tothers\t")
	for i, idle := range all {
		leader, others := measured[i][0], measured[i][1:]
		var shares, switches []string
		for _, cost := range others {
			shares, switches = append(shares, fmt.Sprintf("%.2f", cost.share)), append(switches, fmt.Sprintf("%.0f", cost.switches))
		}
		fmt.Fprintf(&buf, "%s\t%.2f\t%s\t%.0f\t%s\t\n", idle.name, leader.share, strings.Join(shares, ", "), leader.switches, strings.Join(switches, ", "))
	}
	_, _ = fmt.Fprintf(t.out, "\n%s\n", title) // writes to a terminal
	tabs := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = tabs.Write(buf.Bytes())
	_ = tabs.Flush()
}
