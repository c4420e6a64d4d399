//go:build linux

package chaos_test

import (
	"cmp"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/e2e/chaos"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/mutants"
)

// withBugs builds the program with its planted bugs, once.
var withBugs = sync.OnceValues(func() (cluster.Binaries, error) {
	dir, err := build.Dir()
	if err != nil {
		return cluster.Binaries{}, err
	}
	files := filepath.Join(dir, "overlay")
	if err = os.Mkdir(files, 0o700); err != nil {
		return cluster.Binaries{}, err
	}
	overlay, err := mutants.Overlay("../..", files)
	if err != nil {
		return cluster.Binaries{}, err
	}
	return cluster.Build(context.Background(), filepath.Join(dir, "planted"), "-overlay="+overlay)
})

// buildMutant returns the program with a bug. Empty means no bug.
func buildMutant(tb testing.TB, bug string) cluster.Binaries {
	tb.Helper()
	b, err := withBugs()
	if err != nil {
		tb.Fatal(err)
	}
	if bug != "" {
		b.Env = []string{mutants.Variable + "=" + bug}
	}
	return b
}

// A checker is trusted only after it has found planted bugs.
//
//nolint:tparallel // runs after TestChaos, not in parallel with it
func TestCheckersDetectEachMutant(t *testing.T) {
	if err := chaos.Available(); err != nil {
		t.Skipf("no chaos here: %v", err)
	}
	for i, c := range []struct {
		name   string // empty means the bug
		bug    string
		faults string
		// find are the kinds of violations that the checkers must find. too are
		// consequences of the bug that they may find. They must find nothing else.
		find, too []string
		options   chaos.Options
	}{
		{
			bug: mutants.SwallowedAnswer, faults: "^kill -9 follower$", find: []string{"lost"}, too: []string{"idle connection closed under a request"},
			options: chaos.Options{QueueWait: time.Second, ExtraWait: 5 * time.Second},
		},
		{
			bug: mutants.TwoOwners, faults: "^join and leave$", find: []string{"two owners"}, too: []string{"stale epoch", "not linearizable", "failed", "truncated response"},
			// Planned moves wait until a shard is idle. The leader moves busy shards only
			// after the drain timeout.
			options: chaos.Options{Flags: []string{"--drain-timeout", "50ms"}},
		},
		{bug: mutants.SameEpoch, faults: "^join and leave$", find: []string{"epoch at two nodes"}},
		{bug: mutants.StaleEpoch, faults: "^long SIGSTOP of follower$", find: []string{"stale epoch"}, too: []string{"two owners", "not linearizable", "failed"}},
		{
			bug: mutants.DoubleRun, faults: "^kill -9 app$", find: []string{"double run"}, too: []string{"not linearizable"},
			options: chaos.Options{Rate: 400},
		},
		{
			bug: mutants.NoRun, faults: "^kill -9 app$", find: []string{"response without a run"}, too: []string{"failed"},
			// An app that refuses connections keeps its shards for longer than its
			// requests wait.
			options: chaos.Options{QueueWait: time.Second, Flags: []string{"--health-fall", "100"}},
		},
		{bug: mutants.NoLease, faults: "^isolate follower$", find: []string{"stale epoch"}, too: []string{"not linearizable", "two owners", "failed"}},
		{bug: mutants.OtherShard, faults: "^no fault$", find: []string{"bad header"}, too: []string{"not linearizable", "failed"}},
		{bug: mutants.RepeatedEvent, faults: "^join and leave$", find: []string{"repeated event"}, options: chaos.Options{Followers: 12}},
		{bug: mutants.CutStream, faults: "^join and leave$", find: []string{"broken stream"}, options: chaos.Options{Followers: 12}},
		{
			bug: mutants.SiblingEpoch, faults: "^drain instance$", find: []string{"epoch at two nodes"}, too: []string{"stale epoch"},
			options: chaos.Options{Instances: 3},
		},
		{
			bug: mutants.UnreachableOwner, faults: "^isolate from followers$", find: []string{"missed exclusion"}, too: []string{"failed"},
			options: chaos.Options{Nodes: 5},
		},
		{
			bug: mutants.OtherService, faults: "^no fault$", find: []string{"wrong service"}, too: []string{"bad header", "failed", "not linearizable", "epoch at two nodes", "stale epoch", "two owners"},
			options: chaos.Options{Nodes: 5, Services: services()},
		},
		{
			name: "two owners in a service", bug: mutants.TwoOwners, faults: "^join and leave$", find: []string{"two owners"}, too: []string{"stale epoch", "not linearizable", "failed", "truncated response"},
			options: chaos.Options{Nodes: 5, Services: services(), Flags: []string{"--drain-timeout", "50ms"}},
		},
		{
			// This is not a bug: the checker must find what the flag permits.
			name: "stale returns allowed", faults: "^drain$", find: []string{"lost write"},
			options: chaos.Options{Caches: true, Flags: []string{"--returns", "any"}},
		},
		{faults: "^(join and leave|kill -9 app|isolate follower)$", options: chaos.Options{Rounds: 3, Followers: 12}},
	} {
		t.Run(cmp.Or(c.name, c.bug, "no bug"), func(t *testing.T) {
			t.Parallel()
			opts := c.options
			opts.Binaries, opts.Network, opts.Quiet = buildMutant(t, c.bug), 20+i, true
			opts.Faults, opts.Duration, opts.Seed = regexp.MustCompile(c.faults), 40*time.Second, uint64(i+1)
			opts.Rate = cmp.Or(opts.Rate, 240)
			report := chaos.Run(t, opts)
			found := make(map[string]int)
			for _, violation := range report.Violations {
				found[violation.Kind]++
			}
			t.Logf("found %v in round %d", found, len(report.Rounds))
			wrong := slices.DeleteFunc(slices.Collect(maps.Keys(found)), func(kind string) bool {
				return slices.Contains(c.find, kind) || slices.Contains(c.too, kind)
			})
			missing := slices.DeleteFunc(slices.Clone(c.find), func(kind string) bool { return found[kind] > 0 })
			if len(wrong)+len(missing) > 0 {
				t.Errorf("the checkers found %v, want %v and optionally %v: %v", found, c.find, c.too, report.Err())
			}
		})
	}
}

// A program with planted bugs must not run unnoticed.
func TestProgramWithBugsReportsThem(t *testing.T) {
	shardway := func(bug string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), buildMutant(t, "").Node, args...)
		cmd.Env = append(cmd.Environ(), mutants.Variable+"="+bug)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := shardway("double-run", "version")
	if err != nil || !strings.Contains(out, "BUILT WITH BUGS") || !strings.Contains(out, "double-run") {
		t.Errorf("version: %v\n%s", err, out)
	}
	// The program exits before it starts, because it has no secret.
	run := []string{"run", "--log-format", "json", "--data", t.TempDir(), "--secret-file", filepath.Join(t.TempDir(), "none")}
	out, err = shardway("double-run", run...)
	if err == nil || !strings.Contains(out, `"level":"error","bug":"double-run"`) {
		t.Errorf("run: %v\n%s\nwant a line about the bug", err, out)
	}
	out, err = shardway("no such bug", run...)
	if err == nil || !strings.Contains(out, "no-lease") || strings.Contains(out, `"level":"error"`) {
		t.Errorf("run with an unknown bug: %v\n%s\nwant the names of the existing bugs", err, out)
	}
}
