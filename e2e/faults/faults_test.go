//go:build linux

package faults_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/netns"
)

var (
	trials    = flag.Int("faults.trials", 0, "how often each fault happens (0: TestFaults skips)")
	only      = flag.String("faults.only", "", "only faults whose name matches this")
	nodes     = flag.String("faults.nodes", "3,5", "how many nodes a cluster has")
	more      = flag.String("faults.flags", "", "further flags of every node, such as --log-level=debug")
	takeovers = flag.String("faults.takeover", "lease,immediate", "values of --takeover")
)

// shards is the number of shards in these clusters.
const shards = 128

// TestFaults prints the effects of each fault. It checks no durations: it fails only if a
// cluster does not recover.
func TestFaults(t *testing.T) {
	if *trials == 0 {
		t.Skip("a bench: -faults.trials=20 runs it (make bench-faults)")
	}
	want, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	bin := build(t)
	var rows []*faults.Row
	var floors []string
	t.Cleanup(func() {
		t.Logf("cost of faults:\n%sfloor, median p90 max ms:\n%s", faults.Table(rows), strings.Join(floors, "\n"))
	})
	serial := 0
	for size := range strings.SplitSeq(*nodes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		for takeover := range strings.SplitSeq(*takeovers, ",") {
			serial++
			t.Run(fmt.Sprintf("%d nodes, takeover %s", n, takeover), func(t *testing.T) {
				s := newStage(t, bin, n, takeover, serial)
				floors = append(floors, fmt.Sprintf("%d nodes, takeover %s: %v", n, takeover, measureFloor(t, s.c)))
				for _, f := range kinds {
					if want.MatchString(f.name) {
						rows = append(rows, s.row(f)...)
					}
				}
			})
		}
	}
}

// stage is a cluster into which faults are injected.
type stage struct {
	tb       testing.TB
	c        *cluster.Cluster
	net      *netns.Net // nil means that network faults are not possible
	size     int
	takeover string
	// guest joins and leaves; nil before its first use.
	guest *cluster.Node
	loads int
}

// newStage starts a cluster that serves when it returns.
func newStage(tb testing.TB, bin cluster.Binaries, size int, takeover string, serial int) *stage {
	tb.Helper()
	s := &stage{tb: tb, size: size, takeover: takeover}
	if err := netns.Available(); err != nil {
		tb.Logf("no wires are cut: %v", err)
	} else {
		s.net, err = netns.New(serial, size+1) // one for the guest
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := s.net.Close(); err != nil {
				tb.Error(err)
			}
		})
	}
	s.c = cluster.Start(tb, cluster.Options{
		Binaries: bin, Nodes: size, Shards: shards, Net: s.net, Dir: realDir(tb), Flags: append([]string{"--takeover", takeover}, strings.Fields(*more)...),
	})
	return s
}

// realDir returns a directory on a disk, since fsync is part of the measurement.
func realDir(tb testing.TB) string {
	tb.Helper()
	if os.Getenv("SHARDWAY_E2E_KEEP") == "" {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp("", "faults-") //nolint:usetesting // to be kept
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func build(tb testing.TB) cluster.Binaries {
	tb.Helper()
	bin, err := cluster.Build(tb.Context(), tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return bin
}

// row runs the trials of one fault. The first row is that of the fault, and a second one
// that of its end.
func (s *stage) row(f kind) []*faults.Row {
	s.tb.Helper()
	row := &faults.Row{Fault: f.name, Nodes: s.size, Takeover: s.takeover, Target: cmp.Or(f.target[s.takeover], f.target[""])}
	rows := []*faults.Row{row}
	if f.needsNetwork && s.net == nil {
		row.Skipped = "wires cannot be cut here"
		return rows
	}
	startedAt := time.Now()
	if f.endName != "" {
		rows = append(rows, &faults.Row{Fault: f.endName, Nodes: s.size, Takeover: s.takeover})
	}
	for i := range *trials {
		s.c.AwaitServing(s.tb)
		for k, trial := range f.run(s) {
			at := time.Now().UTC().Format("15:04:05.000")
			s.tb.Logf("%s: %s %d: %+v", at, rows[k].Fault, i, trial)
			rows[k].Trials = append(rows[k].Trials, trial)
		}
	}
	s.tb.Logf("%s: %v a trial\n%s", f.name, (time.Since(startedAt) / time.Duration(*trials)).Round(time.Millisecond), faults.Table(rows))
	return rows
}

// others returns the running nodes except one.
func (s *stage) others(victim *cluster.Node) []*cluster.Node { return s.c.Others(victim) }

// host returns the host number of a node in the network.
func (s *stage) host(node *cluster.Node) int { return slices.Index(s.c.Nodes(), node) }
