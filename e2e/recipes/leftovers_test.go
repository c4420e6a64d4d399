//go:build linux

package recipes_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// runVariable is in the environment of all processes of a test run. Its value identifies the run.
const runVariable = "RECIPES_RUN"

// reaperArg is the first argument of the reaper, which is this program. The second one is the run.
const reaperArg = "end-processes-of-run"

// endLimit is the time within which processes must have ended at the end of the test run.
const endLimit = 10 * time.Second

// serveReaper runs the reaper if this process is one: when its standard input ends, it kills all processes of the run.
// Real software leaves worker processes behind if the main process is killed, and the kernel kills only the main process
// when the test process dies.
func serveReaper() bool {
	if len(os.Args) != 3 || os.Args[1] != reaperArg {
		return false
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	killRun(os.Args[2])
	return true
}

// startReaper starts the reaper of a run, which acts when this process has ended or has called stop.
func startReaper(run string) (stop func() error, err error) {
	cmd := exec.Command("/proc/self/exe", reaperArg, run)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives this process and its process group
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		_ = stdin.Close()
		return cmd.Wait()
	}, nil
}

// killRun kills the processes of a run until none is left.
func killRun(run string) {
	for end := time.Now().Add(endLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		pids := processesOfRun(run)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// processesOfRun returns the processes of a run, without this process and without zombies.
func processesOfRun(run string) (pids []int) {
	variable := []byte(runVariable + "=" + run)
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		for entry := range bytes.SplitSeq(environ, []byte{0}) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bytes.Equal(entry, variable) && pid != os.Getpid() {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// noProcessOfRun returns an error if a process of the run is left.
func noProcessOfRun(run string) error {
	var left []string
	for _, pid := range processesOfRun(run) {
		command, _ := os.ReadFile(fmt.Sprint("/proc/", pid, "/cmdline"))
		left = append(left, fmt.Sprintf("%d %.200s", pid, bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("processes of the tests are left:\n%s", strings.Join(left, "\n"))
}

// awaitNoProcess waits until no process of the run is left.
func awaitNoProcess(run string) (err error) {
	for end := time.Now().Add(endLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = noProcessOfRun(run); err == nil {
			return nil
		}
	}
	return err
}

// TestReaperEndsWorkersOfKilledProcess kills a process that has a worker in another session. The worker counts as a
// process of the run, and the reaper ends it.
func TestReaperEndsWorkersOfKilledProcess(t *testing.T) {
	t.Parallel()
	run := fmt.Sprint("run-of-", t.Name(), "-", os.Getpid())
	stop, err := startReaper(run)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), findProgram(t, "sh"), "-c", "setsid sleep 600 & exec sleep 600")
	cmd.Env = append(os.Environ(), runVariable+"="+run)
	must(t, cmd.Start())
	cluster.Await(t, "the process and its worker run", func() error {
		if n := len(processesOfRun(run)); n != 2 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if noProcessOfRun(run) == nil {
		t.Error("the worker is not found")
	}
	must(t, stop())
	must(t, noProcessOfRun(run))
}
