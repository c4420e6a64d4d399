package logfile_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/logfile"
)

func put(t *testing.T, f *logfile.File, line string) {
	t.Helper()
	if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLinesAreThereAfterRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	f, err := logfile.Open(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { f.Run(ctx) })
	put(t, f, "one\n")
	put(t, f, "two\n")
	cancel()
	all.Wait()
	if got := read(t, path); got != "one\ntwo\n" {
		t.Errorf("file = %q", got)
	}
}

func TestReopenLeavesTheOldFileWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	f, err := logfile.Open(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	put(t, f, "old\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	put(t, f, "new\n")
	f.Close()
	if a, b := read(t, path+".1"), read(t, path); a != "old\n" || b != "new\n" {
		t.Errorf("moved file = %q, new one = %q", a, b)
	}
}

// stuck is a disk that takes nothing until it is told to.
type stuck struct {
	begun, on chan struct{}
	once      sync.Once
	got       bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.begun); <-s.on })
	return s.got.Write(p)
}

func TestSlowDiskCostsLinesNotTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &stuck{begun: make(chan struct{}), on: make(chan struct{})}
		f := logfile.ToWriter(disk, zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { f.Run(ctx) })
		put(t, f, "first\n")
		<-disk.begun
		began, line := time.Now(), strings.Repeat("x", 1<<20-1)+"\n"
		for range 7 {
			put(t, f, line)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("writing took %v", took)
		}
		if got := f.Lost(); got != 3 {
			t.Errorf("Lost() = %d, want 3", got)
		}
		close(disk.on)
		synctest.Wait()
		cancel()
		all.Wait()
		want := "first\n" + strings.Repeat(line, 4) + `{"lost":` + strconv.Itoa(3) + "}\n"
		if disk.got.String() != want {
			t.Errorf("%d bytes were written, want %d", disk.got.Len(), len(want))
		}
	})
}
