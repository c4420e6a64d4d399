//go:build linux

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"shardway/e2e/kit/history"
)

// Process is a child process of the test.
type Process struct {
	// Pid is the ID of the process and of its process group.
	Pid int
	// Log is the file with its output.
	Log string

	cmd       *exec.Cmd
	logOffset int64         // start of its output in Log; earlier processes have written before it
	done      chan struct{} // closed after the process has ended and Wait has returned
	err       error         // error of Wait; valid after done is closed
	exitedAt  int64         // time of the exit, a value of history.Now; valid after done is closed
}

// launch starts the command args in the directory dir. Its output is appended to the file log.
func (s *spawner) launch(log, dir string, args []string) (*Process, error) {
	logFile, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // a file of the test
	if err != nil {
		return nil, fmt.Errorf("cluster: log: %w", err)
	}
	defer func() { _ = logFile.Close() }()
	info, err := logFile.Stat()
	if err != nil {
		return nil, fmt.Errorf("cluster: log: %w", err)
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // a program of the test, ended by signal
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("cluster: start: %w", err)
	}
	process := &Process{Pid: cmd.Process.Pid, Log: log, cmd: cmd, logOffset: info.Size(), done: make(chan struct{})}
	go func() {
		defer close(process.done)
		process.err = cmd.Wait()
		process.exitedAt = history.Now()
	}()
	return process, nil
}

// Log messages of a node that closes its connections and exits.
const (
	// failedMessage means that the node cannot continue.
	failedMessage = "node failed, connections closed"
	// handlerStuckMessage means that the app in the process of the node does not return from an
	// aborted request. The app runs until the process exits.
	handlerStuckMessage = "handler did not return, process ends"
)

// processExit describes the end of a process. Times are values of history.Now.
type processExit struct {
	at int64 // time at which the process had certainly ended
	// hasFailed reports that the process ended because it could not continue.
	hasFailed bool
	// closedAt is when the process closed its connections. A failed process does that before it exits,
	// and logs it. For any other process, closedAt is the time of the exit.
	closedAt int64
	// holdsShards reports that the app continued until the exit, although the connections were closed.
	holdsShards bool
}

// exit returns how the process ended. exitedAt is the time at which it had certainly ended.
func (p *Process) exit(exitedAt int64) processExit {
	exit := processExit{at: exitedAt, closedAt: exitedAt}
	if p.Running() {
		return exit
	}
	loggedAt, appContinued := p.findFailureMessage()
	if loggedAt == 0 {
		exit.hasFailed = p.cmd.ProcessState.ExitCode() > 0
		return exit
	}
	exit.hasFailed, exit.holdsShards = true, appContinued
	exit.closedAt = min(exitedAt, loggedAt)
	return exit
}

// findFailureMessage returns when the process logged that it closes its connections. Zero means
// that it did not. appContinued reports that it logged handlerStuckMessage.
func (p *Process) findFailureMessage() (loggedAt int64, appContinued bool) {
	log, err := os.ReadFile(p.Log)
	if err != nil || int64(len(log)) < p.logOffset {
		return 0, false
	}
	for line := range bytes.Lines(log[p.logOffset:]) {
		var entry struct {
			Message string    `json:"message"`
			Time    time.Time `json:"time"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			continue // other output, such as a panic
		}
		isStuck := entry.Message == handlerStuckMessage
		if !isStuck && entry.Message != failedMessage {
			continue
		}
		appContinued = appContinued || isStuck
		if loggedAt == 0 {
			loggedAt = history.Now() - time.Since(entry.Time).Nanoseconds()
		}
	}
	return loggedAt, appContinued
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("cluster: %v to %d: %w", sig, p.Pid, err)
	}
	return nil
}

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits until the process has ended, and returns its exit code, which is -1 after a signal.
// It returns an error if the process has not ended within timeout.
func (p *Process) Wait(timeout time.Duration) (int, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-timer.C:
		return 0, fmt.Errorf("cluster: process %d has not ended after %v", p.Pid, timeout)
	}
}

// sigkill sends SIGKILL unless the process has ended, and does not wait.
func (p *Process) sigkill() error {
	if !p.Running() {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// kill ends the process and waits for it.
func (p *Process) kill() error {
	if err := p.sigkill(); err != nil {
		return err
	}
	<-p.done
	return nil
}

// isStopped reports whether the kernel has stopped the process after SIGSTOP.
func (p *Process) isStopped() bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return false
	}
	// The state follows the name, which is in parentheses.
	_, rest, ok := bytes.Cut(data, []byte(") "))
	return ok && len(rest) > 0 && rest[0] == 'T'
}

// Output returns the output so far. If it is long, it returns the first and the last n
// bytes, in whole lines.
func (p *Process) Output(limit int) string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	if len(data) <= 2*limit {
		return string(data)
	}
	head, tail := data[:limit], data[len(data)-limit:]
	head = head[:bytes.LastIndexByte(head, '\n')+1]
	if _, rest, ok := bytes.Cut(tail, []byte("\n")); ok {
		tail = rest
	}
	return fmt.Sprintf("%s… %d bytes …\n%s", head, len(data)-len(head)-len(tail), tail)
}

// crashLine returns the first line of the output that reports a crash of the program.
func (p *Process) crashLine() string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		for _, prefix := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, prefix) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
