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
)

// The benchmark is what claims of speed rest on, and nobody runs it by chance: this
// plays a case of each number of hops, short, with all that it compares, and wants a
// figure from each line. It is one that leaves processors to what is tested beside it.
func TestEveryLineIsMeasured(t *testing.T) {
	for _, name := range []string{"wrk", "nginx", "haproxy"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed (make bench-tools)", name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bench := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bench, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, bench, "-rounds", "1", "-time", "1s", "-only", "100 B, 64 connections, 2000/s")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	for _, line := range []string{"nginx", "haproxy", "shardway", "nginx → nginx", "shardway → shardway", "shardway → shardway, TLS", "app behind shardway", "app in shardway"} {
		figure := regexp.MustCompile(`(?m)^ *` + line + ` +(\d+\.\d) `).FindSubmatch(out)
		if figure == nil {
			t.Errorf("no line %q", line)
			continue
		}
		if cost, err := strconv.ParseFloat(string(figure[1]), 64); err != nil || cost <= 0 {
			t.Errorf("%s costs %s µs a request", line, figure[1])
		}
	}
}
