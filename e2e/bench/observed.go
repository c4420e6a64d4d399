//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"shardway/e2e/bench/uncounted"
	"shardway/e2e/kit/cluster"
)

// The names of the setups that show the cost of metrics and logs. The first two nodes differ
// only in their request metrics.
const (
	unobserved = "shardway, uncounted"
	counted    = "shardway"
	logged     = "shardway, access log"
	scraped    = "shardway, scraped"
)

// startObserved starts the nodes that show the cost of metrics and logs, and returns their
// setups. Each cluster has a single node. With two nodes, leadership would cost one of them
// more CPU time than the difference to be measured.
func (b *benchRun) startObserved(ctx context.Context, program string) ([]*setup, error) {
	countedNode, err := b.startSingleNode(ctx, program, counted)
	if err != nil {
		return nil, err
	}
	countedNode.checkCounts = expectCounted(countedNode)
	log := filepath.Join(b.dir, "access.log")
	loggedNode, err := b.startSingleNode(ctx, program, logged, "--access-log", log)
	if err != nil {
		return nil, err
	}
	loggedNode.startActivity, loggedNode.checkCounts = truncateLog(log), expectLogged(log)
	// The scraped setup uses the process of the counted setup. Another process would have other
	// caches and another heap, and that difference would hide the cost of scrapes.
	scrapedNode := *countedNode
	scrapedNode.name, scrapedNode.startActivity = scraped, observeNode(countedNode.adminAddrs[0])
	all := []*setup{countedNode, loggedNode, &scrapedNode}
	if !b.isBuilt {
		fmt.Fprintln(os.Stderr, "skipped:", unobserved+": it is built from this source, and -node is not")
		return all, nil
	}
	path, err := b.buildUncounted(ctx)
	if err != nil {
		return nil, err
	}
	uncountedNode, err := b.startSingleNode(ctx, path, unobserved)
	if err != nil {
		return nil, err
	}
	uncountedNode.version, uncountedNode.checkCounts = version(ctx, path, "version"), expectUncounted(uncountedNode)
	return append([]*setup{uncountedNode}, all...), nil
}

// buildUncounted builds a node without request metrics, and returns the path of its binary.
func (b *benchRun) buildUncounted(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "shardway").Output()
	if err != nil {
		return "", fmt.Errorf("bench: go list: %w", err)
	}
	dir := filepath.Join(b.dir, "uncounted")
	if err = os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	list, err := uncounted.Overlay(strings.TrimSpace(string(root)), dir)
	if err != nil {
		return "", err
	}
	built, err := cluster.Build(ctx, dir, "-overlay="+list)
	return built.Node, err
}

// startSingleNode starts a cluster of one node, with additional flags, and returns its line.
func (b *benchRun) startSingleNode(ctx context.Context, program, name string, flags ...string) (*setup, error) {
	addrs, err := b.addrs(portsPerNode) //nolint:contextcheck // probing a port of this machine completes immediately
	if err != nil {
		return nil, err
	}
	kind := strings.ReplaceAll("alone "+name, ",", "") // part of the name of its data directory, so it must be unique
	child, err := b.startNode(ctx, []string{program, "run", "--upstream", "http://" + b.backends[0]}, "a", kind, addrs, append(flags, "--bootstrap-expect", "1"))
	if err != nil {
		return nil, err
	}
	if err := await(ctx, name, func() error { return b.checkServing(ctx, addrs[1], []string{"a"}) }); err != nil {
		return nil, err
	}
	return &setup{name: name, hops: 1, withMetricsAndLogs: true, target: addrs[0], processes: []*process{child}, adminAddrs: addrs[1:2]}, nil
}

// requestMetrics returns the names of the metrics that each request increases, by one or by its
// number of bytes.
func requestMetrics() []string {
	return []string{
		`shardway_requests_total{code="200",route="local"}`, "shardway_request_duration_seconds_count",
		"shardway_upstream_duration_seconds_count", "shardway_app_bytes_total",
	}
}

// expectCounted returns a check for setup.checkCounts. It returns an error unless the metrics of the
// node include all requests.
func expectCounted(node *setup) func(context.Context, int64) error {
	return func(ctx context.Context, requests int64) error {
		metrics, err := get(ctx, "http://"+node.adminAddrs[0]+"/metrics")
		if err != nil {
			return err
		}
		for _, name := range requestMetrics() {
			if count := sumSeries(metrics, name); count < float64(requests) {
				return fmt.Errorf("bench: %s: %s is %.0f after %d requests: it does not count them", node.name, name, count, requests)
			}
		}
		return nil
	}
}

// expectUncounted returns a check for setup.checkCounts. It returns an error if a metric of the node
// counts requests.
func expectUncounted(node *setup) func(context.Context, int64) error {
	return func(ctx context.Context, _ int64) error {
		metrics, err := get(ctx, "http://"+node.adminAddrs[0]+"/metrics")
		if err != nil {
			return err
		}
		for _, name := range requestMetrics() {
			if count := sumSeries(metrics, name); count != 0 {
				return fmt.Errorf("bench: %s: %s is %.0f: it counts requests", node.name, name, count)
			}
		}
		return nil
	}
}

// sumSeries returns the sum of all series whose line in the metrics text begins with name. A
// name without labels thus includes all label values.
func sumSeries(metrics []byte, name string) (sum float64) {
	for line := range strings.Lines(string(metrics)) {
		var value float64
		if rest, ok := strings.CutPrefix(line, name); ok {
			if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &value); err == nil {
				sum += value
			}
		}
	}
	return sum
}

// truncateLog returns a function for setup.startActivity that truncates the access log before each
// measurement. The log is in a file system in memory, which the lines of several minutes
// would fill. The check also relies on an empty file.
func truncateLog(log string) func(context.Context) (stop func() error) {
	return func(context.Context) func() error {
		err := os.Truncate(log, 0)
		return func() error { return err }
	}
}

// expectLogged returns a check for setup.checkCounts. It returns an error unless the access log has a
// line for each request.
func expectLogged(log string) func(context.Context, int64) error {
	return func(ctx context.Context, requests int64) error {
		return await(ctx, "the access log", func() error { // the node writes the log every 100 ms
			data, err := os.ReadFile(log) //nolint:gosec // of the run
			if err != nil {
				return err
			}
			if lines := int64(bytes.Count(data, []byte(`"status":200`))); lines < requests {
				return fmt.Errorf("it has %d of %d lines", lines, requests)
			}
			return nil
		})
	}
}
