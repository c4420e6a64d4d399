package disk_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"shardway/node/disk"
)

func stores(t *testing.T, d *disk.Dir, o disk.StoreOptions) *disk.Stores {
	t.Helper()
	s, err := d.OpenStores(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func entry(i uint64) *raft.Log {
	return &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: []byte("x")}
}

func TestStoresKeepWhatWasWritten(t *testing.T) {
	path := t.TempDir()
	for round := range uint64(2) {
		d := mustOpen(t, path, "")
		s := stores(t, d, disk.StoreOptions{})
		last, err := s.Logs.LastIndex()
		if err != nil || last != round {
			t.Fatalf("last index %d, %v, want %d", last, err, round)
		}
		if err := s.Logs.StoreLog(entry(last + 1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Stable.SetUint64([]byte("CurrentTerm"), round+7); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Stable.GetUint64([]byte("CurrentTerm")); err != nil || n != round+7 {
			t.Fatalf("term %d, %v, want %d", n, err, round+7)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStoresOpenOnce(t *testing.T) {
	d := mustOpen(t, t.TempDir(), "")
	stores(t, d, disk.StoreOptions{})
	if _, err := d.OpenStores(disk.StoreOptions{}); err == nil {
		t.Error("stores opened twice")
	}
}

// Errors that Raft expects are passed on and do not count as failures.
func TestExpectedErrorsReachRaft(t *testing.T) {
	for name, d := range map[string]*disk.Dir{"files": mustOpen(t, t.TempDir(), ""), "memory": memory(t, disk.NewMemory())} {
		s := stores(t, d, disk.StoreOptions{})
		s.SetCallbacks(func(err error) { t.Errorf("%s: failure reported: %v", name, err) }, nil)
		if err := s.Logs.GetLog(5, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("%s: GetLog of no entry: %v, want ErrLogNotFound", name, err)
		}
		if _, err := s.Stable.Get([]byte("LastVoteCand")); err == nil || err.Error() != "not found" {
			t.Errorf("%s: Get of nothing: %v, want not found", name, err)
		}
		if err := s.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func memory(t *testing.T, m *disk.Memory) *disk.Dir {
	t.Helper()
	d, err := m.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Raft would panic on an error, so a failed call does not return. Its goroutine blocks
// until the stores are released and then exits with its deferred calls.
func TestFailedWriteBlocksCallerUntilRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMemory()
		d := memory(t, m)
		s := stores(t, d, disk.StoreOptions{})
		var told atomic.Int64
		s.SetCallbacks(func(error) { told.Add(1) }, nil)
		m.SetStoreFault(func(string) error { return errors.New("input/output error") })
		var returned, ended atomic.Int64
		for range 2 {
			go func() {
				defer ended.Add(1)
				_ = s.Logs.StoreLog(entry(1))
				_ = s.Stable.SetUint64([]byte("CurrentTerm"), 1)
				returned.Add(1)
			}()
		}
		time.Sleep(time.Hour)
		if told.Load() != 1 || ended.Load() != 0 {
			t.Fatalf("told %d times, %d ended, want once and 0", told.Load(), ended.Load())
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "input/output") {
			t.Errorf("Err() = %v", err)
		}
		s.Release()
		synctest.Wait()
		if returned.Load() != 0 || ended.Load() != 2 {
			t.Errorf("%d returned, %d ended, want 0 and 2", returned.Load(), ended.Load())
		}
	})
}

func TestHungWriteIsReportedWhileItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMemory()
		d := memory(t, m)
		s := stores(t, d, disk.StoreOptions{WriteTimeout: 2 * time.Second})
		var hung atomic.Int64
		s.SetCallbacks(nil, func(on bool) {
			if on {
				hung.Add(1)
			} else {
				hung.Add(100)
			}
		})
		wait := make(chan struct{})
		m.SetStoreFault(func(string) error { <-wait; return nil })
		done := make(chan error, 1)
		go func() { done <- s.Logs.StoreLog(entry(1)) }()
		time.Sleep(1900 * time.Millisecond)
		if hung.Load() != 0 {
			t.Fatal("reported before the timeout")
		}
		time.Sleep(time.Minute)
		if hung.Load() != 1 {
			t.Fatalf("hung = %d, want 1", hung.Load())
		}
		close(wait)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if hung.Load() != 101 {
			t.Errorf("hung = %d, want 101: the end was not reported", hung.Load())
		}
		if err := s.Logs.StoreLog(entry(2)); err != nil {
			t.Fatal(err)
		}
		if hung.Load() != 101 {
			t.Error("a quick write was reported")
		}
	})
}

func TestCloseDoesNotWaitForAHungWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMemory()
		d := memory(t, m)
		s := stores(t, d, disk.StoreOptions{})
		wait := make(chan struct{})
		m.SetStoreFault(func(string) error { <-wait; return nil })
		answered := false
		go func() {
			_ = s.Logs.StoreLog(entry(1))
			answered = true
		}()
		synctest.Wait()
		wantError(t, d.Close(), "hang")
		close(wait)
		synctest.Wait()
		if answered {
			t.Error("a write was answered after Close")
		}
	})
}

// A write that hung when its process was killed must not reach the log of the next process.
func TestHungWriteOfCrashedProcessIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMemory()
		s := stores(t, memory(t, m), disk.StoreOptions{})
		wait := make(chan struct{})
		m.SetStoreFault(func(string) error { <-wait; return nil })
		go func() { _ = s.Logs.StoreLog(entry(1)) }()
		synctest.Wait()
		_ = m.Crash() // returns an error that a write hangs
		m.SetStoreFault(nil)
		d := memory(t, m)
		s = stores(t, d, disk.StoreOptions{})
		close(wait)
		synctest.Wait()
		if last, err := s.Logs.LastIndex(); err != nil || last != 0 {
			t.Errorf("LastIndex() = %d, %v, want 0", last, err)
		}
		_ = d.Close()
	})
}

func TestCopyContainsAllFilesAndStores(t *testing.T) {
	m := disk.NewMemory()
	d := memory(t, m)
	id, boot := d.Disk(), d.Boot()
	s := stores(t, d, disk.StoreOptions{})
	for i := range uint64(3) {
		if err := s.Logs.StoreLog(entry(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Stable.SetUint64([]byte("CurrentTerm"), 7), vote(s, 6, "c"), d.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := m.Copy()
	if err != nil {
		t.Fatal(err)
	}
	d = memory(t, m) // continues, unlike its copy
	s = stores(t, d, disk.StoreOptions{})
	if err := errors.Join(s.Logs.DeleteRange(1, 3), s.Stable.SetUint64([]byte("CurrentTerm"), 9), d.Close()); err != nil {
		t.Fatal(err)
	}
	d = memory(t, c)
	if d.Disk() != id || d.Boot() != boot+1 {
		t.Errorf("copy is disk %s in boot %d, want %s in %d", d.Disk(), d.Boot(), id, boot+1)
	}
	s = stores(t, d, disk.StoreOptions{})
	last, _ := s.Logs.LastIndex()
	term, _ := s.Stable.GetUint64([]byte("CurrentTerm"))
	if in, cand := voted(t, s); last != 3 || term != 7 || in != 6 || cand != "c" {
		t.Errorf("copy has entries up to %d, term %d, vote %q in %d, want 3, 7, \"c\" in 6", last, term, cand, in)
	}
	_ = d.Close()
}

func TestSnapshotsAreKeptAndBounded(t *testing.T) {
	for name, open := range map[string]func() *disk.Dir{
		"files": func() func() *disk.Dir {
			path := t.TempDir()
			return func() *disk.Dir { return mustOpen(t, path, "") }
		}(),
		"memory": func() func() *disk.Dir {
			m := disk.NewMemory()
			return func() *disk.Dir { return memory(t, m) }
		}(),
	} {
		d := open()
		s := stores(t, d, disk.StoreOptions{})
		for i := range uint64(3) {
			k, err := s.Snapshots.Create(1, 10*(i+1), 2, raft.Configuration{}, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Write([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
		}
		half, err := s.Snapshots.Create(1, 99, 2, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = half.Write([]byte("ha")); err != nil {
			t.Fatal(err)
		}
		if err = d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open()
		s = stores(t, d, disk.StoreOptions{})
		list, err := s.Snapshots.List()
		if err != nil || len(list) != 2 || list[0].Index != 30 || list[1].Index != 20 {
			t.Fatalf("%s: snapshots %v, %v, want those at 30 and 20", name, list, err)
		}
		_, r, err := s.Snapshots.Open(list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 2)
		if n, _ := r.Read(b); n != 1 || b[0] != 2 {
			t.Errorf("%s: snapshot holds %v", name, b[:n])
		}
		_ = r.Close()
		_ = d.Close()
	}
}
