package consensus_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/consensus"
	"shardway/node/disk"
)

func newMemory() *disk.Memory { return disk.NewMemory() }

// Raft panics when it cannot save its term. The node must instead stop in order, and the other servers continue.
func TestBrokenDiskStopsTheServerInOrder(t *testing.T) {
	for _, role := range []string{"leader", "follower"} {
		t.Run(role, func(t *testing.T) {
			bubble(t, abc(), nil, func(g *group) {
				t := g.t
				l := g.leader(g.all...)
				bad := l
				if role == "follower" {
					bad = without(g.all, l)[0]
				}
				bad.mem.SetStoreFault(func(string) error { return errors.New("input/output error") })
				done := make(chan error, 1)
				go func() { done <- l.Apply([]byte("x")) }()
				if err := <-bad.failed; !strings.Contains(err.Error(), "input/output") {
					t.Errorf("Failed told %v", err)
				}
				<-bad.Failed()
				if err := <-done; role == "leader" && !errors.Is(err, consensus.ErrUnknown) {
					t.Errorf("Apply on the broken disk: %v, want ErrUnknown", err)
				}
				bad.crash()
				rest := without(g.all, bad)
				g.apply(g.leader(rest...), "after")
				g.agree(1, rest...)
			})
		})
	}
}

func TestBrokenTermDoesNotPanic(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		bad := without(g.all, l)[0]
		bad.mem.SetStoreFault(func(op string) error {
			if op == "write term" {
				return errors.New("no space left on device")
			}
			return nil
		})
		l.crash()
		<-bad.Failed()
		bad.crash()
		bad.mem.SetStoreFault(nil)
		bad.restart()
		g.leader(without(g.all, l)...)
	})
}

// A leader that hangs in fsync still sends heartbeats. It must be replaced, and follow once the disk works again.
func TestHungDiskCostsLeadership(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		g.apply(l, "before")
		time.Sleep(time.Second) // No other write is in progress.
		wait := make(chan struct{})
		l.mem.SetStoreFault(func(string) error { <-wait; return nil })
		done := make(chan error, 1)
		go func() { done <- l.Apply([]byte("hung")) }()
		rest := without(g.all, l)
		start := time.Now()
		n := g.leader(rest...)
		if d := time.Since(start); d < 2*time.Second || d > 6*time.Second {
			t.Errorf("replaced after %v, want after the write timeout of 2 s", d)
		}
		g.apply(n, "after")
		l.mem.SetStoreFault(nil)
		close(wait)
		if err := <-done; !errors.Is(err, consensus.ErrUnknown) {
			t.Errorf("Apply over the hung write: %v, want ErrUnknown", err)
		}
		g.leader(g.all...)
		g.agree(2, g.all...)
		if got := l.fsm.have(); !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("entries %v", got)
		}
	})
}

func TestShutdownDoesNotWaitForeverForAHungDisk(t *testing.T) {
	bubble(t, []string{"a"}, nil, func(g *group) {
		t := g.t
		s := g.all[0]
		wait := make(chan struct{})
		s.mem.SetStoreFault(func(string) error { <-wait; return nil })
		go func() { _ = s.Apply([]byte("x")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v, want the deadline", err)
		}
		close(wait)
	})
}

func TestOpenReportsBrokenStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMemory()
		d, err := m.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		stores, err := d.OpenStores(disk.StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.SetStoreFault(func(string) error { return errors.New("read-only file system") })
		id := consensus.ServerID(d.Node(), d.Disk())
		_, err = consensus.Open(consensus.Options{
			ID: id, Stream: consensus.NewStream(id, nil), FSM: &list{}, Stores: stores, Log: zerolog.Nop(),
		})
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("Open: %v, want the store's error", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// alone starts a single server on real files. It returns the server, its list, and a function that stops it.
func alone(t *testing.T, path string) (*consensus.Raft, *list, func() error, error) {
	t.Helper()
	d, err := disk.Open(path, "a")
	if err != nil {
		t.Fatal(err)
	}
	stores, err := d.OpenStores(disk.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := consensus.ServerID(d.Node(), d.Disk())
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	fsm := &list{}
	r, err := consensus.Open(consensus.Options{
		ID: id, Stream: consensus.NewStream(id, dial), FSM: fsm, Stores: stores, Log: zerolog.Nop(), TrailingLogs: 8,
	})
	if err != nil {
		return nil, nil, nil, errors.Join(err, d.Close())
	}
	return r, fsm, func() error {
		return errors.Join(r.Shutdown(context.Background()), d.Close())
	}, nil
}

func lead(t *testing.T, r *consensus.Raft) {
	t.Helper()
	for !r.IsLeader() {
		select {
		case <-r.Changed():
		case <-time.After(30 * time.Second):
			t.Fatal("no leader")
		}
	}
	if err := r.Barrier(); err != nil {
		t.Fatal(err)
	}
}

func TestRealFilesSurviveARestartAfterCompaction(t *testing.T) {
	path := t.TempDir()
	for round := range 3 {
		r, fsm, stop, err := alone(t, path)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			if !r.StartedEmpty() {
				t.Error("a new directory is not fresh")
			}
			if err := r.Bootstrap(); err != nil {
				t.Fatal(err)
			}
		}
		lead(t, r)
		if got := len(fsm.have()); got != 30*round {
			t.Fatalf("round %d began with %d entries, want %d", round, got, 30*round)
		}
		for range 30 {
			if err := r.Apply([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Snapshot(); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	path := t.TempDir()
	r, _, stop, err := alone(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if err = r.Bootstrap(); err != nil {
		t.Fatal(err)
	}
	lead(t, r)
	if err = r.Apply([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err = r.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err = stop(); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	err = filepath.WalkDir(filepath.Join(path, "raft", "snapshots"), func(p string, d fs.DirEntry, werr error) error {
		if werr != nil || d.Name() != "state.bin" {
			return werr
		}
		b, rerr := os.ReadFile(p)
		if rerr != nil {
			return rerr
		}
		b[len(b)-1] ^= 1
		damaged++
		return os.WriteFile(p, b, 0o600)
	})
	if err != nil || damaged != 1 {
		t.Fatalf("%d snapshots damaged, %v", damaged, err)
	}
	if _, _, _, err = alone(t, path); err == nil || !strings.Contains(err.Error(), "snapshot") {
		t.Errorf("opened with a damaged snapshot: %v", err)
	}
}
