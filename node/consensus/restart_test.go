package consensus_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/raceflag"
	"shardway/node/consensus"
)

func compacting(o *consensus.Options) { o.TrailingLogs, o.SnapshotInterval = 8, time.Second }

func TestRestartAfterCompaction(t *testing.T) {
	bubble(t, abc(), compacting, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		g.apply(l, numbered(100)...)
		time.Sleep(10 * time.Second)
		for _, s := range g.all {
			s.crash()
		}
		for _, s := range g.all {
			s.restart()
			if len(s.fsm.have()) == 0 || s.Applied() == 0 {
				t.Errorf("%s restored nothing from its snapshot", s.host.Name())
			}
		}
		n := g.leader(g.all...)
		if err := n.Barrier(); err != nil {
			t.Fatal(err)
		}
		if got := n.fsm.have(); !slices.Equal(got, numbered(100)) {
			t.Errorf("%d entries after the restart, want the same 100", len(got))
		}
		g.apply(n, "after")
		g.agree(101, g.all...)
	})
}

// A leader that was partitioned with uncommitted entries is sent a snapshot that they contradict (hashicorp/raft issue 697). The number of
// entries that the others have by then determines which part of its log the library would keep.
func TestContradictingLogIsDropped(t *testing.T) {
	for n := 8; n <= 44; n += raceflag.Share(1, 6) {
		bubble(t, abc(), compacting, func(g *group) {
			t := g.t
			l := g.leader(g.all...)
			g.apply(l, "before")
			g.agree(1, g.all...)
			g.net.Isolate(l.host.Name())
			for range 40 {
				go func() { _ = l.Apply([]byte("never")) }()
			}
			time.Sleep(time.Second)
			rest := without(g.all, l)
			for _, e := range numbered(n) {
				g.apply(g.leader(rest...), e)
			}
			time.Sleep(5 * time.Second) // The others take a snapshot and truncate their logs.
			if err := g.leader(rest...).Transfer(anyServer); err != nil {
				t.Fatal(err)
			}
			g.leader(rest...)
			g.net.Heal() // The new leader has not sent entries that match the log yet.
			g.agree(n+1, g.all...)
			if err := g.leader(g.all...).TransferTo(l.id()); err != nil {
				t.Fatal(err)
			}
			g.apply(g.leader(g.all...), "after")
			g.agree(n+2, g.all...)
		})
	}
}

func TestFollowerFarBehindGetsASnapshot(t *testing.T) {
	bubble(t, abc(), compacting, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		f := without(g.all, l)[0]
		f.crash()
		g.apply(l, numbered(100)...)
		time.Sleep(10 * time.Second)
		f.restart()
		g.agree(100, g.all...)
		if err := f.Snapshot(); err != nil {
			t.Errorf("snapshot of a restored server: %v", err)
		}
	})
}

// A voter whose disk was wiped returns under its name while another voter is behind and the third one dies. It must not help the lagging
// voter to become leader.
func TestWipedDiskDoesNotVote(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		wiped, behind := without(g.all, l)[0], without(g.all, l)[1]
		g.net.Isolate(behind.host.Name())
		g.apply(l, numbered(5)...)
		wiped.crash()
		old := wiped.id()
		wiped.mem = newMemory()
		wiped.restart()
		if wiped.id() == old || !wiped.StartedEmpty() {
			t.Fatalf("server %s after the wipe, was %s", wiped.id(), old)
		}
		l.crash()
		g.net.Heal()
		start := time.Now()
		for time.Since(start) < time.Minute {
			if behind.IsLeader() || wiped.IsLeader() {
				t.Fatal("a leader without the committed entries")
			}
			_ = behind.Campaign()
			time.Sleep(100 * time.Millisecond)
		}
		l.restart()
		n := g.leader(l, behind)
		if err := n.Remove(old); err != nil {
			t.Fatal(err)
		}
		if err := n.AddNonvoter(wiped.id()); err != nil {
			t.Fatal(err)
		}
		g.agree(5, g.all...)
	})
}

func TestSingleServerServesAlone(t *testing.T) {
	bubble(t, []string{"a"}, nil, func(g *group) {
		t := g.t
		s := g.all[0]
		g.apply(s, numbered(3)...)
		if err := s.Transfer(anyServer); err == nil {
			t.Error("handed over to nobody")
		}
		for range 3 {
			s.crash()
			s.restart()
			g.leader(s)
			if err := s.Barrier(); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.fsm.have(); !slices.Equal(got, numbered(3)) {
			t.Errorf("entries %v", got)
		}
	})
}

// Requests in flight end with the server.
func TestShutdownEndsRequests(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		g.net.Isolate(l.host.Name())
		errs := make(chan error, 3)
		go func() { errs <- l.Apply([]byte("x")) }()
		go func() { errs <- l.Barrier() }()
		go func() { errs <- l.AddNonvoter("d/disk") }()
		synctest.Wait()
		l.stop()
		for range 3 {
			if err := <-errs; !errors.Is(err, consensus.ErrUnknown) {
				t.Errorf("request under way: %v, want ErrUnknown", err)
			}
		}
		if err := l.Apply([]byte("x")); err == nil {
			t.Error("Apply after Shutdown")
		}
	})
}
