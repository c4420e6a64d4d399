//go:build linux

package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain can run the test binary as a test that starts a child and is killed.
func TestMain(m *testing.M) {
	if os.Getenv("CLUSTER_ROLE") != "parent" {
		m.Run()
		return
	}
	s, err := newSpawner(false)
	if err != nil {
		panic(err)
	}
	process, err := s.launch(os.DevNull, "", []string{"sleep", "1000"})
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, process.Pid)
	<-process.done
}

func launch(t *testing.T, args ...string) *Process {
	t.Helper()
	s, err := newSpawner(false)
	if err != nil {
		t.Fatal(err)
	}
	process, err := s.launch(filepath.Join(t.TempDir(), "log"), "", args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.kill(); err != nil {
			t.Error(err)
		}
		s.close()
	})
	return process
}

func TestProcessIsStoppedContinuedAndKilled(t *testing.T) {
	process := launch(t, "sleep", "1000")
	if !process.Running() || process.isStopped() {
		t.Fatalf("running %v, stopped %v", process.Running(), process.isStopped())
	}
	if group, err := syscall.Getpgid(process.Pid); err != nil || group != process.Pid {
		t.Errorf("process group %d, %v, want its own", group, err)
	}
	for _, want := range []bool{true, false} {
		sig := map[bool]syscall.Signal{true: syscall.SIGSTOP, false: syscall.SIGCONT}[want]
		if err := process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		Await(t, sig.String(), func() error {
			if process.isStopped() != want {
				return errors.New("no effect")
			}
			return nil
		})
	}
	if err := process.kill(); err != nil {
		t.Fatal(err)
	}
	if code, err := process.Wait(time.Second); code != -1 || err != nil || process.Running() {
		t.Errorf("exit code %d, %v, running %v", code, err, process.Running())
	}
}

func TestProcessKeepsItsOutput(t *testing.T) {
	process := launch(t, "sh", "-c", "echo one; echo two >&2; echo 'panic: three'; exit 3")
	if code, err := process.Wait(AwaitTimeout); code != 3 || err != nil {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if got := process.Output(1000); got != "one\ntwo\npanic: three\n" {
		t.Errorf("output = %q", got)
	}
	if got := process.Output(5); got != "one\n… 17 bytes …\n" {
		t.Errorf("shortened output = %q", got)
	}
	if got := process.crashLine(); got != "panic: three" {
		t.Errorf("crash = %q", got)
	}
}

func TestProcessThatHangsIsAnError(t *testing.T) {
	if _, err := launch(t, "sleep", "1000").Wait(time.Millisecond); err == nil {
		t.Error("Wait returned without an error")
	}
}

func TestChildrenDieWithTheTest(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "CLUSTER_ROLE=parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the child does not run: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	Await(t, "the child has ended", func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err == nil && !strings.Contains(string(b), ") Z ") {
			return errors.New("it lives")
		}
		return nil
	})
}

func TestPortsAreUnique(t *testing.T) {
	var all []*Ports
	seen := make(map[int]bool)
	for range 3 {
		p, err := NewPorts()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		all = append(all, p)
	}
	for i := range 30 {
		port, err := all[i%3].Free()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port > lastPort || !isFree(port) {
			t.Errorf("port %d is not free, or was given twice", port)
		}
		seen[port] = true
	}
}

func TestScratchRemovesDirectoriesOfDeadProcesses(t *testing.T) {
	mine, err := Scratch()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(mine) }()
	dead := filepath.Join(filepath.Dir(mine), scratchPrefix+"60466175-x") // higher than any process ID
	if err = os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := Scratch()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(other) }()
	if _, err := os.Stat(dead); err == nil {
		t.Errorf("%s was not swept", dead)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("swept a directory of the living: %v", err)
	}
}
