//go:build linux

package main_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// Performance claims depend on this benchmark, which does not run regularly. The test
// runs a short case with each number of hops and all comparisons, and expects a figure
// for each setup. The case does not use up the CPU time of tests that run at the same
// time.
func TestEverySetupHasResults(t *testing.T) {
	t.Parallel()
	needs(t, "wrk", "nginx", "haproxy")
	// With the case about metrics and logs, as without -only: both kinds of clusters run
	// at the same time.
	out := measured(t, "100 B, 64 connections, 2000/s$|observed")
	for _, line := range []string{"nginx", "haproxy", "shardway", "nginx → nginx", "shardway → shardway", "shardway → shardway, TLS", "app behind shardway", "app in shardway"} {
		costs(t, out, line)
	}
}

// The cost of metrics and logs: each setup has a figure, and the additional cost relative
// to the first setup. The command itself verifies that one setup counts no requests, and
// that another logs each.
func TestCostOfMetricsAndLogsIsMeasured(t *testing.T) {
	t.Parallel()
	needs(t, "wrk")
	out := measured(t, "observed")
	costs(t, out, "shardway, uncounted")
	for _, line := range []string{"shardway", "shardway, access log", "shardway, scraped"} {
		costs(t, out, line)
		if !regexp.MustCompile(`(?m)^ *` + line + ` +\S+ +\S+ +[+-]\d+\.\d\d \([+-]`).Match(out) {
			t.Errorf("it is not said how much more %q costs", line)
		}
	}
}

// With an additional client, each setup has a figure, and the client moves data at its
// rate.
func TestAdditionalClientIsMeasured(t *testing.T) {
	t.Parallel()
	needs(t, "wrk", "nginx")
	out := measured(t, "2000/s, 10 MB/s")
	for _, line := range []string{"nginx → nginx", "shardway → shardway", "shardway → shardway, TLS"} {
		figures := regexp.MustCompile(`(?m)^ *`+line+` +\d+\.\d\d +\d+\.\d\d +[+-]\d+\.\d\d .* (\d+\.\d)$`).FindAllSubmatch(out, -1)
		if len(figures) != 2 {
			t.Errorf("%d lines with figures of %q, want one with a reading and one with a sending client", len(figures), line)
		}
		for _, f := range figures {
			if moved, err := strconv.ParseFloat(string(f[1]), 64); err != nil || moved < 1 || moved > 12 {
				t.Errorf("%s: the additional client transferred %s MB/s, want more than 0 of 10", line, f[1])
			}
		}
	}
}

// Idle nodes are measured separately, with two binaries at the same time.
func TestIdleNodesAreMeasured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	built, err := cluster.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, "-idle", "1s", "-rounds", "2", "-node", built.Node, "-beside", built.Node)
	for _, name := range []string{"shardway", "beside"} {
		if n := len(regexp.MustCompile(`(?m)^ *`+name+` +\d+\.\d\d +\d+\.\d\d, \d+\.\d\d +\d+ +\d+, \d+$`).FindAll(out, -1)); n != 3 {
			t.Errorf("%d lines with figures of %q, want 2 and their means", n, name)
		}
	}
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed (make bench-tools)", name)
		}
	}
}

// measured returns the output of a short run of some cases.
func measured(t *testing.T, only string) []byte {
	t.Helper()
	return run(t, "-rounds", "1", "-time", "1s", "-only", only)
}

// run returns the output of the command.
func run(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bench := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bench, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, bench, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return out
}

// costs expects a figure for a setup.
func costs(t *testing.T, out []byte, line string) {
	t.Helper()
	figure := regexp.MustCompile(`(?m)^ *` + line + ` +(\d+\.\d) `).FindSubmatch(out)
	if figure == nil {
		t.Errorf("no line %q", line)
		return
	}
	if cost, err := strconv.ParseFloat(string(figure[1]), 64); err != nil || cost <= 0 {
		t.Errorf("%s costs %s µs a request", line, figure[1])
	}
}
