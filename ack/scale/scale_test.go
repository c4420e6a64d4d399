package scale_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"shardway/ack"
	"shardway/ack/scale"
)

// lan returns a hundred nodes in one data centre.
func lan(takeover ack.Takeover) scale.Options {
	return scale.Options{
		Nodes: 100, Voters: 5, Shards: 16384, Takeover: takeover,
		Latency: 250 * time.Microsecond, Uplink: 1e9, Fsync: 2 * time.Millisecond, Seed: 7,
	}
}

// fault is a change of a cluster.
type fault struct {
	name     string
	takeover ack.Takeover
	do       func(*scale.Sim)
	// least is the time that the protocol must wait before it may move a shard.
	least time.Duration
}

func faults() []fault {
	follower := func(s *scale.Sim) { s.Kill(s.Alive()[60]) }
	return []fault{
		{"kill -9 of a node", ack.TakeoverLease, follower, 450 * time.Millisecond},
		{"the same, takeover immediate", ack.TakeoverImmediate, follower, 0},
		{"SIGSTOP of a node", ack.TakeoverLease, func(s *scale.Sim) { s.Silence(s.Alive()[60]) }, 2400 * time.Millisecond},
		{"kill -9 of a rack of ten", ack.TakeoverLease, func(s *scale.Sim) { s.Kill(s.Alive()[60:70]...) }, 450 * time.Millisecond},
		{"kill -9 of the leader", ack.TakeoverLease, func(s *scale.Sim) { s.Kill(s.Alive()[0]) }, 500 * time.Millisecond},
		{"the same, takeover immediate", ack.TakeoverImmediate, func(s *scale.Sim) { s.Kill(s.Alive()[0]) }, 0},
		{"a node joins", ack.TakeoverLease, (*scale.Sim).Join, 0},
		{"twenty nodes join", ack.TakeoverLease, func(s *scale.Sim) {
			for range 20 {
				s.Join()
			}
		}, 0},
	}
}

// grown returns a serving cluster with ownership epochs of several maps.
func grown(tb testing.TB, o scale.Options) *scale.Sim {
	tb.Helper()
	s := scale.New(o)
	if !s.Run(time.Minute, s.Settled) {
		tb.Fatal("the cluster does not settle")
	}
	for range 5 {
		s.Kill(s.Alive()[50])
		s.Join()
		if !s.Run(time.Minute, s.Settled) {
			tb.Fatal("the cluster does not settle again")
		}
	}
	s.Pass(time.Second)
	return s
}

// regrown joins nodes until there are a hundred again.
func regrown(tb testing.TB, s *scale.Sim) {
	tb.Helper()
	for len(s.Alive()) < 100 {
		s.Join()
	}
	if !s.Run(time.Minute, s.Settled) {
		tb.Fatal("the cluster does not settle after the fault before")
	}
	s.Pass(time.Second)
}

// TestScaleHundredNodes injects every fault into clusters of a hundred nodes with 16,384
// shards, one cluster for each takeover rule. The cluster must recover, and only dead nodes
// may be dropped. It prints the durations.
func TestScaleHundredNodes(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		_, _ = fmt.Fprintln(w, strings.Trim(strings.ReplaceAll(fmt.Sprintln(cells...), " | ", "\t"), "\n")+"\t")
	}
	row("until all have applied |", "protocol waits |", "rounds |", "entries, bytes |", "leader CPU |", "longest turn")
	clusters := map[ack.Takeover]*scale.Sim{}
	for _, f := range faults() {
		if clusters[f.takeover] == nil {
			clusters[f.takeover] = grown(t, lan(f.takeover))
		}
		s := clusters[f.takeover]
		regrown(t, s)
		began, busy, entries, term := s.Now(), s.LeaderCPUTime(), len(s.Entries), s.Term()
		f.do(s)
		s.Pass(time.Millisecond) // the fault is not settled yet
		if !s.Run(time.Minute, s.Settled) {
			t.Errorf("%s: not healed after a minute", f.name)
			continue
		}
		took := s.Now() - began
		var sizes []int
		for _, e := range s.Entries[entries:] {
			sizes = append(sizes, e.Bytes)
		}
		if took < f.least {
			t.Errorf("%s: healed after %v, the protocol waits at least %v", f.name, took, f.least)
		}
		cpu := s.LeaderCPUTime()
		if s.Term() == term { // else it is another leader's, from its election on
			cpu -= busy
		}
		row(f.name, "|", took.Round(time.Millisecond), "|", f.least, "|", len(sizes)/2, "|", sizes, "|", cpu.Round(100*time.Microsecond), "|", s.LongestLeaderIteration().Round(10*time.Microsecond))
	}
	_ = w.Flush()
	t.Logf("100 nodes, 5 voters, 16384 shards, 0.25 ms one way, 1 Gbit/s, fsync 2 ms\n%s", table.String())
}

// TestScaleAtRest shows what the leader of a hundred nodes computes while nothing
// happens, what is applied, and what compressing the entries would give.
func TestScaleAtRest(t *testing.T) {
	s := grown(t, lan(ack.TakeoverLease))
	busy, turns := s.LeaderCPUTime(), s.LeaderIterations()
	const span = 10 * time.Second
	entries := len(s.Entries)
	s.Pass(span)
	if len(s.Entries) != entries || !s.Settled() {
		t.Errorf("%d entries at rest, settled %v", len(s.Entries)-entries, s.Settled())
	}
	t.Logf("at rest: %d turns a second, %.1f %% of one core", int(float64(s.LeaderIterations()-turns)/span.Seconds()), 100*float64(s.LeaderCPUTime()-busy)/float64(span))
	slices.Sort(s.Applying)
	t.Logf("apply of an entry: median %v, longest %v", s.Applying[len(s.Applying)/2], s.Applying[len(s.Applying)-1])
	for _, e := range s.Entries[len(s.Entries)-2:] {
		for _, level := range []int{1, 6} {
			began := time.Now()
			n := deflated(t, e.Entry, level)
			took := time.Since(began)
			t.Logf("%s: %d bytes, deflate level %d: %d bytes (%.0f %%) in %v", e.Kind, e.Bytes, level, n, 100*float64(n)/float64(e.Bytes), took)
		}
	}
	b, err := s.Alive()[0].State().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("snapshot: %d bytes, deflated %d", len(b), deflated(t, b, 6))
}

func deflated(t *testing.T, b []byte, level int) int {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}
