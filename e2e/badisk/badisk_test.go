//go:build linux

package badisk_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/e2e/badisk"
)

// TestMain lets the test binary play the process with the disk: for each line of
// its input it syncs the file of that name and prints what came of it. "sync" does
// it on the threads it has, "thread" on a new one.
func TestMain(m *testing.M) {
	if path := os.Getenv("BADISK_FILE"); path != "" {
		syncer(path)
		return
	}
	m.Run()
}

func syncer(path string) {
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "sync" {
			_, _ = fmt.Fprintln(os.Stdout, f.Sync())
			continue
		}
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends
			done <- f.Sync()
		}()
		_, _ = fmt.Fprintln(os.Stdout, <-done)
	}
}

// victim is the process with the disk.
type victim struct {
	t   *testing.T
	pid int
	in  io.Writer
	out *bufio.Reader
}

func start(t *testing.T) *victim {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BADISK_FILE="+filepath.Join(t.TempDir(), "file"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	v := &victim{t: t, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	v.hears("ready")
	return v
}

func (v *victim) say(line string) { _, _ = fmt.Fprintln(v.in, line) }

// hears waits for a line that contains want.
func (v *victim) hears(want string) {
	v.t.Helper()
	line, err := v.out.ReadString('\n')
	if err != nil || !strings.Contains(line, want) {
		v.t.Fatalf("the process said %q, %v; want %q", line, err, want)
	}
}

func (v *victim) trace(f badisk.Fault) *badisk.Tracer {
	v.t.Helper()
	tr, err := badisk.Trace(v.pid, f)
	must(v.t, err)
	v.t.Cleanup(func() { must(v.t, tr.Stop()) })
	return tr
}

// state is the letter of /proc for the process's first thread.
func (v *victim) state() string {
	v.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.pid))
	must(v.t, err)
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}

func (v *victim) awaitState(want string) {
	v.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if s := v.state(); strings.Contains(want, s) {
			return
		} else if time.Now().After(deadline) {
			v.t.Fatalf("the process is in state %q, want one of %q", s, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func need(t *testing.T) {
	t.Helper()
	if err := badisk.Available(); err != nil {
		t.Skip(err)
	}
}

func TestFullDiskTakesNothing(t *testing.T) {
	need(t)
	dir := filepath.Join(t.TempDir(), "a disk")
	d, err := badisk.Mount(dir, 1<<20)
	must(t, err)
	t.Cleanup(func() { must(t, d.Unmount()) })
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, make([]byte, 5000), 0o600)) // not whole pages
	for range 2 {
		must(t, d.Fill())
		if left, err := d.Left(); left != 0 || err != nil {
			t.Errorf("full, %d bytes are left, %v", left, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a write to a full disk: %v, want ENOSPC", err)
		}
		must(t, d.Free())
		must(t, d.Free())
		must(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 100_000), 0o600))
		must(t, os.Remove(filepath.Join(dir, "other")))
	}
	must(t, d.Unmount())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Unmount, %v", err)
	}
}

// TestMountSweepsWhatTheDeadLeft plants the mount of a pid that does not exist,
// and spares those of the living.
func TestMountSweepsWhatTheDeadLeft(t *testing.T) {
	need(t)
	old := filepath.Join(t.TempDir(), "old one")
	must(t, os.Mkdir(old, 0o700))
	must(t, unix.Mount("shardway-badisk-60466175", old, "tmpfs", 0, "size=4096")) // beyond any limit
	must(t, os.WriteFile(filepath.Join(old, "file"), nil, 0o600))
	var mine []*badisk.Disk
	for i := range 2 {
		d, err := badisk.Mount(filepath.Join(t.TempDir(), strconv.Itoa(i)), 1<<20)
		must(t, err)
		t.Cleanup(func() { must(t, d.Unmount()) })
		must(t, os.WriteFile(filepath.Join(d.Dir, "file"), nil, 0o600))
		mine = append(mine, d)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not swept: %v", err)
	}
	if _, err := os.Stat(filepath.Join(mine[0].Dir, "file")); err != nil {
		t.Errorf("swept away by another disk of the same process: %v", err)
	}
}

// TestFaultStrikesEveryThreadUntilStop traces one process again and again: what
// it fails on is the fault, and afterwards nothing.
func TestFaultStrikesEveryThreadUntilStop(t *testing.T) {
	need(t)
	v := start(t)
	sync := func(want string) {
		t.Helper()
		for _, how := range []string{"sync", "thread", "sync", "thread"} {
			v.say(how)
			v.hears(want)
		}
	}
	sync("<nil>")
	for _, f := range []struct {
		fault badisk.Fault
		want  string
	}{
		{badisk.Fault{Error: syscall.EIO}, "input/output error"},
		{badisk.Fault{Error: syscall.ENOSPC, Calls: []string{"fsync"}}, "no space left"},
		{badisk.Fault{Delay: 30 * time.Millisecond}, "<nil>"},
		{badisk.Fault{Error: syscall.EIO, Delay: 30 * time.Millisecond}, "input/output error"},
		{badisk.Fault{Error: syscall.EIO, Calls: []string{"pwrite64"}}, "<nil>"},
	} {
		tr := v.trace(f.fault)
		began := time.Now()
		sync(f.want)
		if took := time.Since(began); took < 4*f.fault.Delay {
			t.Errorf("%+v: four calls took %v", f.fault, took)
		}
		must(t, tr.Stop())
		want := 4
		if f.fault.Calls != nil && f.fault.Calls[0] != "fsync" {
			want = 0
		}
		if got := tr.Hits(); got != want {
			t.Errorf("%+v: %d hits, want %d", f.fault, got, want)
		}
		sync("<nil>")
	}
}

// TestHungCallEndsWithTheTrace waits in a call for as long as it is traced.
func TestHungCallEndsWithTheTrace(t *testing.T) {
	need(t)
	v := start(t)
	tr := v.trace(badisk.Fault{Delay: time.Hour})
	v.say("sync")
	v.say("sync")
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		v.hears("<nil>")
	}()
	select {
	case <-answered:
		t.Error("a call that hangs returned")
	case <-time.After(100 * time.Millisecond):
	}
	must(t, tr.Stop())
	<-answered
	v.hears("<nil>")
}

// TestStopAndTraceDoNotMind each other: SIGSTOP holds a process that is traced,
// and one that is stopped can be traced. Whether it stays stopped when the trace
// ends is strace's affair.
func TestStopAndTraceDoNotMind(t *testing.T) {
	need(t)
	v := start(t)
	works := func() {
		t.Helper()
		must(t, syscall.Kill(v.pid, syscall.SIGCONT))
		v.say("sync")
		v.hears("input/output error")
	}
	tr := v.trace(badisk.Fault{Error: syscall.EIO})
	must(t, syscall.Kill(v.pid, syscall.SIGSTOP))
	v.awaitState("tT")
	works()
	must(t, syscall.Kill(v.pid, syscall.SIGSTOP))
	v.awaitState("tT")
	must(t, tr.Stop())
	must(t, syscall.Kill(v.pid, syscall.SIGSTOP)) // strace may have let it go on
	v.awaitState("T")
	v.trace(badisk.Fault{Error: syscall.EIO})
	v.awaitState("tT")
	works()
}

func TestTraceSaysWhyNot(t *testing.T) {
	need(t)
	for _, c := range []struct {
		what  string
		pid   int
		fault badisk.Fault
		want  string
	}{
		{"no fault", os.Getpid(), badisk.Fault{}, "needs an error or a delay"},
		{"no process", 60466175, badisk.Fault{Error: syscall.EIO}, "No such process"},
		{"no call", start(t).pid, badisk.Fault{Error: syscall.EIO, Calls: []string{"nonsense"}}, "nonsense"},
	} {
		if _, err := badisk.Trace(c.pid, c.fault); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	v := start(t)
	v.trace(badisk.Fault{Error: syscall.EIO})
	if _, err := badisk.Trace(v.pid, badisk.Fault{Error: syscall.EIO}); err == nil || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("traced already: %v", err)
	}
}

// TestTraceOfTheDeadEnds by itself, and Stop does not mind.
func TestTraceOfTheDeadEnds(t *testing.T) {
	need(t)
	v := start(t)
	tr := v.trace(badisk.Fault{Error: syscall.EIO})
	must(t, syscall.Kill(v.pid, syscall.SIGKILL))
	must(t, tr.Stop())
	must(t, tr.Stop())
}
