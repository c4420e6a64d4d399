//go:build linux

package faultfs_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shardway/e2e/kit/faultfs"
)

// TestMain can run the test binary as the process that uses the disk, or as the one that
// serves it. For each line of its input, the first one syncs or writes the file with that
// name, or syncs its directory, and prints the result.
func TestMain(m *testing.M) {
	if faultfs.Serve() {
		return
	}
	if path := os.Getenv("BADISK_FILE"); path != "" {
		runDiskUser(path)
		return
	}
	m.Run()
}

func runDiskUser(path string) {
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "fsync":
			err = f.Sync()
		case "fdatasync":
			err = syscall.Fdatasync(int(f.Fd()))
		case "directory":
			err = dir.Sync()
		case "write":
			_, err = f.WriteAt([]byte("x"), 5000)
		}
		_, _ = fmt.Fprintln(os.Stdout, err)
	}
}

// victim is a process that uses a disk.
type victim struct {
	t    *testing.T
	disk *faultfs.Disk
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
}

func start(t *testing.T) *victim {
	t.Helper()
	disk := mount(t, 1<<20)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BADISK_FILE="+filepath.Join(disk.Dir, "file"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
	v := &victim{t: t, disk: disk, cmd: cmd, in: in, out: bufio.NewReader(out)}
	v.expectLine("ready")
	return v
}

// mount mounts a disk until the test ends.
func mount(t *testing.T, bytes int64) *faultfs.Disk {
	t.Helper()
	disk, err := faultfs.Mount(filepath.Join(t.TempDir(), "a disk"), bytes)
	must(t, err)
	t.Cleanup(func() { must(t, disk.Unmount()) })
	return disk
}

func (v *victim) sendLine(line string) { _, _ = fmt.Fprintln(v.in, line) }

// expectLine waits for a line that contains want.
func (v *victim) expectLine(want string) {
	v.t.Helper()
	line, err := v.out.ReadString('\n')
	if err != nil || !strings.Contains(line, want) {
		v.t.Fatalf("the process said %q, %v; want %q", line, err, want)
	}
}

// expectReply sends a command to the process, and checks its result.
func (v *victim) expectReply(command, want string) {
	v.t.Helper()
	v.sendLine(command)
	v.expectLine(want)
}

// awaitHits waits until the fault has affected this number of calls.
func (v *victim) awaitHits(want int) {
	v.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		got, err := v.disk.Hits()
		must(v.t, err)
		if got >= want {
			return
		}
		if time.Now().After(deadline) {
			v.t.Fatalf("%d calls met the fault, want %d", got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func requireFaults(t *testing.T) {
	t.Helper()
	if err := faultfs.Available(); err != nil {
		t.Skip(err)
	}
}

func TestFullDiskRejectsWrites(t *testing.T) {
	requireFaults(t)
	disk := mount(t, 1<<20)
	dir := disk.Dir
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, make([]byte, 5000), 0o600)) // no whole number of pages
	for range 2 {
		must(t, disk.Fill())
		if remaining, err := disk.FreeBytes(); remaining != 0 || err != nil {
			t.Errorf("full, %d bytes are left, %v", remaining, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a write to a full disk: %v, want ENOSPC", err)
		}
		must(t, disk.RemoveFiller())
		must(t, disk.RemoveFiller())
		must(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 100_000), 0o600))
		must(t, os.Remove(filepath.Join(dir, "other")))
	}
	must(t, disk.Unmount())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Unmount, %v", err)
	}
}

// The test plants a mount of a process ID that does not exist. Mount must keep the mounts
// of live processes.
func TestMountRemovesDisksOfDeadProcesses(t *testing.T) {
	requireFaults(t)
	old := filepath.Join(t.TempDir(), "old one")
	must(t, os.Mkdir(old, 0o700))
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	must(t, err)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	must(t, unix.Mount("shardway-faultfs-60466175", old, "fuse.faultfs", 0, options)) // higher than any process ID
	must(t, device.Close())                                                           // no server
	var mine []*faultfs.Disk
	for i := range 2 {
		disk, err := faultfs.Mount(filepath.Join(t.TempDir(), strconv.Itoa(i)), 1<<20)
		must(t, err)
		t.Cleanup(func() { must(t, disk.Unmount()) })
		must(t, os.WriteFile(filepath.Join(disk.Dir, "file"), nil, 0o600))
		mine = append(mine, disk)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not swept: %v", err)
	}
	if _, err := os.Stat(filepath.Join(mine[0].Dir, "file")); err != nil {
		t.Errorf("swept away by another disk of the same process: %v", err)
	}
}

// A disk gets a fault several times. Only calls during the fault fail.
func TestFaultLastsUntilHeal(t *testing.T) {
	requireFaults(t)
	v := start(t)
	all := func(want string) {
		t.Helper()
		for _, c := range []string{"fsync", "fdatasync", "directory"} {
			v.expectReply(c, want)
		}
	}
	all("<nil>")
	for _, f := range []struct {
		fault faultfs.Fault
		want  string
	}{
		{faultfs.Fault{Error: syscall.EIO}, "input/output error"},
		{faultfs.Fault{Error: syscall.ENOSPC}, "no space left"},
		{faultfs.Fault{Delay: 30 * time.Millisecond}, "<nil>"},
		{faultfs.Fault{Error: syscall.EIO, Delay: 30 * time.Millisecond}, "input/output error"},
	} {
		must(t, v.disk.SetFault(f.fault))
		startedAt := time.Now()
		all(f.want)
		if elapsed := time.Since(startedAt); elapsed < 3*f.fault.Delay {
			t.Errorf("%+v: three calls took %v", f.fault, elapsed)
		}
		v.expectReply("write", "<nil>")
		if got, err := v.disk.Heal(); got != 3 || err != nil {
			t.Errorf("%+v: %d hits, %v, want 3", f.fault, got, err)
		}
		all("<nil>")
	}
}

// A call waits as long as the disk is stalled. Files can be read in the meantime.
func TestWaitingCallEndsWithTheFault(t *testing.T) {
	requireFaults(t)
	v := start(t)
	must(t, v.disk.SetFault(faultfs.Fault{Delay: time.Hour}))
	v.sendLine("fsync")
	v.sendLine("fsync")
	v.awaitHits(1)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		v.expectLine("<nil>")
	}()
	if _, err := os.ReadFile(filepath.Join(v.disk.Dir, "file")); err != nil {
		t.Error(err)
	}
	select {
	case <-answered:
		t.Error("a call that hangs returned")
	case <-time.After(100 * time.Millisecond):
	}
	if hits, err := v.disk.Heal(); hits != 1 || err != nil {
		t.Errorf("%d hits, %v, want 1", hits, err)
	}
	<-answered
	v.expectLine("<nil>")
}

// Signals do not end the call, including those that the Go runtime sends itself. A killed
// process dies, although the kernel makes it wait for the disk, even after other signals.
func TestOnlyKillEndsAWaitingCall(t *testing.T) {
	requireFaults(t)
	v := start(t)
	must(t, v.disk.SetFault(faultfs.Fault{Delay: time.Hour}))
	v.sendLine("fdatasync")
	v.awaitHits(1)
	returned := make(chan string, 1)
	go func() {
		line, _ := v.out.ReadString('\n')
		returned <- line
	}()
	for range 100 {
		must(t, v.cmd.Process.Signal(syscall.SIGURG))
	}
	must(t, v.cmd.Process.Signal(syscall.SIGSTOP))
	must(t, v.cmd.Process.Signal(syscall.SIGCONT))
	select {
	case line := <-returned:
		t.Errorf("a call that hangs returned: %q", line)
	case <-time.After(100 * time.Millisecond):
	}
	must(t, v.cmd.Process.Kill())
	<-returned // the end of its output: it has died
	if hits, err := v.disk.Heal(); hits != 1 || err != nil {
		t.Errorf("%d hits, %v, want 1", hits, err)
	}
}

// The test uses a file like a bbolt database: mapped for reads, grown, and written with
// pwrite.
func TestMappedFileContainsWrites(t *testing.T) {
	requireFaults(t)
	disk := mount(t, 16<<20)
	f, err := os.Create(filepath.Join(disk.Dir, "file"))
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	const size = 1 << 20
	for round := range 8 {
		must(t, f.Truncate(int64(round+1)*size))
		mapped, err := unix.Mmap(int(f.Fd()), 0, (round+1)*size, unix.PROT_READ, unix.MAP_SHARED)
		must(t, err)
		rng := rand.New(rand.NewPCG(1, uint64(round)))
		for range 500 {
			block := make([]byte, 1+rng.IntN(20_000))
			for i := range block {
				block[i] = byte(rng.Uint32())
			}
			at := rng.IntN(len(mapped) - len(block))
			_, err = f.WriteAt(block, int64(at))
			must(t, err)
			if !bytes.Equal(mapped[at:at+len(block)], block) {
				t.Fatalf("%d bytes at %d differ from the written bytes", len(block), at)
			}
		}
		all, err := os.ReadFile(f.Name())
		must(t, err)
		if !bytes.Equal(all, mapped) {
			t.Error("read and mapped, the file differs")
		}
		must(t, unix.Munmap(mapped))
	}
}

// A disk is unmounted while a process uses it.
func TestCallsFailWithoutServer(t *testing.T) {
	requireFaults(t)
	v := start(t)
	must(t, v.disk.SetFault(faultfs.Fault{Delay: time.Hour}))
	v.sendLine("fsync")
	v.awaitHits(1)
	must(t, v.disk.Unmount())
	must(t, v.disk.Unmount())
	v.expectLine("connection abort")
	v.expectReply("fsync", "not connected")
	if err := v.disk.SetFault(faultfs.Fault{Error: syscall.EIO}); err == nil {
		t.Error("an unmounted disk accepts a command")
	}
}

func TestInvalidFaultIsRejected(t *testing.T) {
	requireFaults(t)
	disk := mount(t, 1<<20)
	if err := disk.SetFault(faultfs.Fault{}); err == nil || !strings.Contains(err.Error(), "needs an error or a delay") {
		t.Errorf("no fault: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := faultfs.Mount(file, 1<<20); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("not a directory: %v", err)
	}
}
