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

// The names of the lines that show the cost of metrics and logs. The first two nodes differ
// only in their request metrics.
const (
	unobserved = "shardway, uncounted"
	counted    = "shardway"
	logged     = "shardway, access log"
	scraped    = "shardway, scraped"
)

// observed starts the nodes that show the cost of metrics and logs, and returns their
// lines. Each cluster has a single node. With two nodes, leadership would cost one of them
// more CPU time than the difference to be measured.
func (b *benchRun) observed(ctx context.Context, program string) ([]*line, error) {
	usual, err := b.startAlone(ctx, program, counted)
	if err != nil {
		return nil, err
	}
	usual.check = countsAll(usual)
	log := filepath.Join(b.dir, "access.log")
	logs, err := b.startAlone(ctx, program, logged, "--access-log", log)
	if err != nil {
		return nil, err
	}
	logs.during, logs.check = truncateLog(log), logsAll(log)
	// The scraped line uses the process of the usual line. Another process would have other
	// caches and another heap, and that difference would hide the cost of scrapes.
	watched := *usual
	watched.name, watched.during = scraped, watch(usual.pprof[0])
	all := []*line{usual, logs, &watched}
	if !b.built {
		fmt.Fprintln(os.Stderr, "skipped:", unobserved+": it is built from this source, and -node is not")
		return all, nil
	}
	path, err := b.buildUncounted(ctx)
	if err != nil {
		return nil, err
	}
	without, err := b.startAlone(ctx, path, unobserved)
	if err != nil {
		return nil, err
	}
	without.version, without.check = version(ctx, path, "version"), countsNone(without)
	return append([]*line{without}, all...), nil
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

// startAlone starts a cluster of one node, with additional flags, and returns its line.
func (b *benchRun) startAlone(ctx context.Context, program, name string, flags ...string) (*line, error) {
	at, err := b.addrs(perNode) //nolint:contextcheck // probing a port of this machine is over at once
	if err != nil {
		return nil, err
	}
	kind := strings.ReplaceAll("alone "+name, ",", "") // part of the name of its data directory, so it must be unique
	p, err := b.startNode(ctx, []string{program, "run", "--upstream", "http://" + b.backends[0]}, "a", kind, at, append(flags, "--bootstrap-expect", "1"))
	if err != nil {
		return nil, err
	}
	if err := await(ctx, name, func() error { return b.serving(ctx, at[1], []string{"a"}) }); err != nil {
		return nil, err
	}
	return &line{name: name, hops: 1, observed: true, target: at[0], procs: []*process{p}, pprof: at[1:2]}, nil
}

// perRequest returns the names of the metrics that each request increases, by one or by its
// number of bytes.
func perRequest() []string {
	return []string{
		`shardway_requests_total{code="200",route="local"}`, "shardway_request_duration_seconds_count",
		"shardway_upstream_duration_seconds_count", "shardway_app_bytes_total",
	}
}

// countsAll returns a check for line.check. It returns an error unless the metrics of the
// node include all requests.
func countsAll(l *line) func(context.Context, int64) error {
	return func(ctx context.Context, requests int64) error {
		metrics, err := get(ctx, "http://"+l.pprof[0]+"/metrics")
		if err != nil {
			return err
		}
		for _, name := range perRequest() {
			if n := value(metrics, name); n < float64(requests) {
				return fmt.Errorf("bench: %s: %s is %.0f after %d requests: it does not count them", l.name, name, n, requests)
			}
		}
		return nil
	}
}

// countsNone returns a check for line.check. It returns an error if a metric of the node
// counts requests.
func countsNone(l *line) func(context.Context, int64) error {
	return func(ctx context.Context, _ int64) error {
		metrics, err := get(ctx, "http://"+l.pprof[0]+"/metrics")
		if err != nil {
			return err
		}
		for _, name := range perRequest() {
			if n := value(metrics, name); n != 0 {
				return fmt.Errorf("bench: %s: %s is %.0f: it counts requests", l.name, name, n)
			}
		}
		return nil
	}
}

// value returns the sum of all series whose line in the metrics text begins with name. A
// name without labels thus includes all label values.
func value(metrics []byte, name string) (sum float64) {
	for line := range strings.Lines(string(metrics)) {
		var n float64
		if rest, ok := strings.CutPrefix(line, name); ok {
			if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

// truncateLog returns a function for line.during that truncates the access log before each
// measurement. The log is in a file system in memory, which the lines of several minutes
// would fill. The check also relies on an empty file.
func truncateLog(log string) func(context.Context) (stop func() error) {
	return func(context.Context) func() error {
		err := os.Truncate(log, 0)
		return func() error { return err }
	}
}

// logsAll returns a check for line.check. It returns an error unless the access log has a
// line for each request.
func logsAll(log string) func(context.Context, int64) error {
	return func(ctx context.Context, requests int64) error {
		return await(ctx, "the access log", func() error { // the node writes the log every 100 ms
			b, err := os.ReadFile(log) //nolint:gosec // of the run
			if err != nil {
				return err
			}
			if n := int64(bytes.Count(b, []byte(`"status":200`))); n < requests {
				return fmt.Errorf("it has %d of %d lines", n, requests)
			}
			return nil
		})
	}
}
