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

// The benchmark is what claims of speed rest on, and nobody runs it by chance: this
// plays a case of each number of hops, short, with all that it compares, and wants a
// figure from each line. It is one that leaves processors to what is tested beside it.
func TestEveryLineIsMeasured(t *testing.T) {
	needs(t, "wrk", "nginx", "haproxy")
	// With what observing costs, as without -only: the clusters of both stand side by side.
	out := measured(t, "100 B, 64 connections, 2000/s$|observed")
	for _, line := range []string{"nginx", "haproxy", "shardway", "nginx → nginx", "shardway → shardway", "shardway → shardway, TLS", "app behind shardway", "app in shardway"} {
		costs(t, out, line)
	}
}

// What observing costs is measured too: each of its lines has a figure, and but for the one
// that is the measure how much more that is. That they are what their names say (this one
// counts no requests, that one logs each) the bench asks them, and fails.
func TestWhatObservingCostsIsMeasured(t *testing.T) {
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

// What waits because of a client beside is measured of each line, and that the client moved
// what it is called.
func TestAClientBesideIsMeasured(t *testing.T) {
	needs(t, "wrk", "nginx")
	out := measured(t, "2000/s, 10 MB/s")
	for _, line := range []string{"nginx → nginx", "shardway → shardway", "shardway → shardway, TLS"} {
		figures := regexp.MustCompile(`(?m)^ *`+line+` +\d+\.\d\d +\d+\.\d\d +[+-]\d+\.\d\d .* (\d+\.\d)$`).FindAllSubmatch(out, -1)
		if len(figures) != 2 {
			t.Errorf("%d lines with figures of %q, want one of who reads and one of who sends", len(figures), line)
		}
		for _, f := range figures {
			if moved, err := strconv.ParseFloat(string(f[1]), 64); err != nil || moved < 1 || moved > 12 {
				t.Errorf("%s: the client beside moved %s MB/s, want some of 10", line, f[1])
			}
		}
	}
}

// What nodes take that nobody asks anything is measured apart, of two binaries side by side.
func TestIdleNodesAreMeasured(t *testing.T) {
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

// measured is what the bench prints of cases, played once and short.
func measured(t *testing.T, only string) []byte {
	t.Helper()
	return run(t, "-rounds", "1", "-time", "1s", "-only", only)
}

// run is what the bench prints.
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

// costs wants a figure from a line.
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
