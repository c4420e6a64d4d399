//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/e2e/kit/cluster"
)

// settleTime is how long clusters run before they are measured, unless the measurement itself
// is shorter. A starting node uses all processors for five seconds, and contacts the other
// nodes often for half a minute. That must not be part of the measurement.
const settleTime = 40 * time.Second

// idleCluster is a cluster of three nodes that receives no requests.
type idleCluster struct {
	name       string
	ids        []string
	processes  []*process
	adminAddrs []string
}

// idleCost is the cost of an idle node.
type idleCost struct {
	cpuPercent float64 // of a core, in percent
	switches   float64 // context switches of its threads per second
}

// measureIdleClusters measures the cost of idle nodes. The clusters run at the same time, so that other
// load of the machine affects all of them.
func (b *benchRun) measureIdleClusters(ctx context.Context, opts options, results *table) error {
	program, err := b.build(ctx, opts.node)
	if err != nil {
		return err
	}
	if err := b.startBackends(ctx); err != nil {
		return err
	}
	all := []*idleCluster{{name: "shardway"}}
	programs := []string{program}
	if opts.otherNode != "" {
		all, programs = append(all, &idleCluster{name: otherBinary}), append(programs, opts.otherNode)
	}
	for i, idle := range all {
		if err := b.startIdleCluster(ctx, idle, programs[i]); err != nil {
			return err
		}
	}
	results.printMachine(nil)
	if err := sleep(ctx, min(settleTime, opts.idleTime)); err != nil {
		return err
	}
	rounds := make([][][]idleCost, len(all)) // by cluster, then by round
	for range opts.rounds {
		before := loadAverage()
		measured, err := measureIdle(ctx, all, opts.idleTime)
		if err != nil {
			return err
		}
		for i := range all {
			rounds[i] = append(rounds[i], measured[i])
		}
		results.printIdle(all, measured, fmt.Sprintf("three nodes without requests, %v, load %s to %s", opts.idleTime, before, loadAverage()))
	}
	if opts.rounds > 1 {
		means := make([][]idleCost, len(all))
		for i := range all {
			means[i] = mean(rounds[i])
		}
		results.printIdle(all, means, fmt.Sprintf("means of %d rounds", opts.rounds))
	}
	return nil
}

// startIdleCluster starts a cluster of three nodes.
func (b *benchRun) startIdleCluster(ctx context.Context, idle *idleCluster, program string) error {
	idle.ids = []string{"a", "b", "c"}
	addrs, err := b.addrs(portsPerNode * len(idle.ids)) //nolint:contextcheck // probing a port of this machine completes immediately
	if err != nil {
		return err
	}
	for i, id := range idle.ids {
		flags := []string{"--bootstrap-expect", strconv.Itoa(len(idle.ids))}
		for j := range idle.ids {
			if j != i {
				flags = append(flags, "--join", addrs[portsPerNode*j+2])
			}
		}
		process, err := b.startNode(ctx, []string{program, "run", "--upstream", "http://" + b.backends[i]}, id, "silent "+idle.name, addrs[portsPerNode*i:], flags)
		if err != nil {
			return err
		}
		idle.processes, idle.adminAddrs = append(idle.processes, process), append(idle.adminAddrs, addrs[portsPerNode*i+1])
	}
	return await(ctx, idle.name, func() error { return b.checkServing(ctx, idle.adminAddrs[0], idle.ids) })
}

// measureIdle waits for a duration, and returns the cost of each node in that time, by cluster. The
// leader is the first node of its cluster. A change of leadership is an error, because the
// costs of a leader and a follower differ.
func measureIdle(ctx context.Context, all []*idleCluster, duration time.Duration) ([][]idleCost, error) {
	leaders, err := leadersOf(ctx, all)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	before, err := processCosts(all)
	if err != nil {
		return nil, err
	}
	if err = sleep(ctx, duration); err != nil {
		return nil, err
	}
	measuredTime := time.Since(start)
	after, err := processCosts(all)
	if err != nil {
		return nil, err
	}
	leadersAfter, err := leadersOf(ctx, all)
	if err != nil {
		return nil, err
	}
	costs := make([][]idleCost, len(all))
	for i, idle := range all {
		if leaders[i] != leadersAfter[i] {
			return nil, fmt.Errorf("bench: %s: the leader was %s, and is now %s", idle.name, leaders[i], leadersAfter[i])
		}
		for j, id := range idle.ids {
			cost := after[i][j].since(before[i][j], measuredTime)
			if id == leaders[i] {
				costs[i] = slices.Insert(costs[i], 0, cost)
			} else {
				costs[i] = append(costs[i], cost)
			}
		}
	}
	return costs, nil
}

// leadersOf returns the leader of each cluster.
func leadersOf(ctx context.Context, all []*idleCluster) ([]string, error) {
	leaders := make([]string, len(all))
	for i, idle := range all {
		var err error
		if leaders[i], err = idle.leader(ctx); err != nil {
			return nil, err
		}
	}
	return leaders, nil
}

// leader returns the leader of a cluster, according to one of its nodes.
func (s *idleCluster) leader(ctx context.Context) (string, error) {
	body, err := get(ctx, "http://"+s.adminAddrs[0]+"/status")
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

// processCost is the total cost of a process since its start.
type processCost struct {
	cpu      time.Duration
	switches int64
}

// since returns the cost per time since an earlier total.
func (c processCost) since(before processCost, duration time.Duration) idleCost {
	return idleCost{
		cpuPercent: 100 * (c.cpu - before.cpu).Seconds() / duration.Seconds(),
		switches:   float64(c.switches-before.switches) / duration.Seconds(),
	}
}

// processCosts returns the total costs of all processes, by cluster and node.
func processCosts(all []*idleCluster) ([][]processCost, error) {
	costs := make([][]processCost, len(all))
	for i, idle := range all {
		for _, process := range idle.processes {
			pid := process.cmd.Process.Pid
			cpu, err1 := cpuTimeOf(pid)
			switches, err2 := switchesOf(pid)
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("%s: %w", idle.name, err)
			}
			costs[i] = append(costs[i], processCost{cpu, switches})
		}
	}
	return costs, nil
}

// switchesOf returns how often the threads of a process gave up a processor.
func switchesOf(pid int) (sum int64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		status, err := os.ReadFile(file) //nolint:gosec // of a child
		if err != nil {
			continue // the thread has ended
		}
		count, err := parseSwitches(string(status))
		if err != nil {
			return 0, fmt.Errorf("bench: %s: %w", file, err)
		}
		sum += count
	}
	return sum, nil
}

// parseSwitches returns the number of context switches in the status file of a thread, voluntary and
// not.
func parseSwitches(status string) (sum int64, err error) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if !strings.HasSuffix(name, "voluntary_ctxt_switches") {
			continue
		}
		count, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += count
	}
	return sum, nil
}

// loadAverage returns the load average of the machine over the last minute.
func loadAverage() string {
	data, _ := os.ReadFile("/proc/loadavg") // empty if the file does not exist
	load, _, _ := strings.Cut(string(data), " ")
	return load
}

// sleep waits for a duration. It returns an error if ctx ends before that.
func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mean returns the mean cost of each node over some rounds, the leader first.
func mean(rounds [][]idleCost) []idleCost {
	means := slices.Clone(rounds[len(rounds)-1])
	for i := range means {
		means[i].cpuPercent, means[i].switches = 0, 0
		for _, round := range rounds {
			means[i].cpuPercent += round[i].cpuPercent / float64(len(rounds))
			means[i].switches += round[i].switches / float64(len(rounds))
		}
	}
	return means
}

// printIdle prints the cost of the nodes of each cluster, the leader first.
func (t *table) printIdle(all []*idleCluster, measured [][]idleCost, title string) {
	var rows bytes.Buffer
	fmt.Fprintln(&rows, "cluster\tleader, % of a core\tothers\tswitches/s, leader\tothers\t")
	for i, idle := range all {
		leader, followers := measured[i][0], measured[i][1:]
		var shares, switches []string
		for _, cost := range followers {
			shares = append(shares, fmt.Sprintf("%.2f", cost.cpuPercent))
			switches = append(switches, fmt.Sprintf("%.0f", cost.switches))
		}
		fmt.Fprintf(&rows, "%s\t%.2f\t%s\t%.0f\t%s\t\n", idle.name, leader.cpuPercent, strings.Join(shares, ", "), leader.switches, strings.Join(switches, ", "))
	}
	t.printAligned(title, rows.Bytes())
}
