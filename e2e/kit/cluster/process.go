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

// Process is a child of the test.
type Process struct {
	// Pid is its process id, and its process group's.
	Pid int
	// Log is the file with its output.
	Log string

	cmd   *exec.Cmd
	from  int64         // where its output begins in Log
	done  chan struct{} // closed when it has ended and was waited for
	err   error         // of Wait; read after done
	ended int64         // reading of history.Now at the end; read after done
}

// launch starts args with its output appended to log.
func (s *spawner) launch(log, dir string, args []string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // a file of the test
	if err != nil {
		return nil, fmt.Errorf("cluster: log: %w", err)
	}
	defer func() { _ = out.Close() }()
	st, err := out.Stat()
	if err != nil {
		return nil, fmt.Errorf("cluster: log: %w", err)
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // a program of the test, ended by signal
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("cluster: start: %w", err)
	}
	p := &Process{Pid: cmd.Process.Pid, Log: log, cmd: cmd, from: st.Size(), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
		p.ended = history.Now()
	}()
	return p, nil
}

// What a node says before its connections break: it cannot go on, and cuts them, or the
// app in its process cannot be stopped, and it ends. That app runs until then.
const (
	cutLine = "node failed, connections closed"
	endLine = "handler did not return, process ends"
)

// failed tells whether a process that has ended did so because it could not go on,
// and when it cut its connections: at by its exit code alone, earlier by its word. holds
// tells that what it ran did not end with them.
func (p *Process) failed(at int64) (cut int64, holds, failed bool) {
	if p.Running() {
		return at, false, false
	}
	if said, holds := p.said(); said != 0 {
		return min(at, said), holds, true
	}
	return at, false, p.cmd.ProcessState.ExitCode() > 0
}

// said returns when the process said that its connections break, 0 if it has not, and
// whether it said that an app in it does not return.
func (p *Process) said() (at int64, holds bool) {
	b, err := os.ReadFile(p.Log)
	if err != nil || int64(len(b)) < p.from {
		return 0, false
	}
	for line := range bytes.Lines(b[p.from:]) {
		var l struct {
			Message string    `json:"message"`
			Time    time.Time `json:"time"`
		}
		if json.Unmarshal(line, &l) != nil || l.Message != cutLine && l.Message != endLine {
			continue
		}
		if holds = holds || l.Message == endLine; at == 0 {
			at = history.Now() - time.Since(l.Time).Nanoseconds()
		}
	}
	return at, holds
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("cluster: %v to %d: %w", sig, p.Pid, err)
	}
	return nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running tells whether it has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the end, and returns the exit code (-1: by a signal). It is an
// error if the process has not ended after the given time.
func (p *Process) Wait(most time.Duration) (int, error) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-t.C:
		return 0, fmt.Errorf("cluster: process %d has not ended after %v", p.Pid, most)
	}
}

// strike sends SIGKILL to the process, unless it has ended, and does not wait.
func (p *Process) strike() error {
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
	if err := p.strike(); err != nil {
		return err
	}
	<-p.done
	return nil
}

// stopped tells whether the kernel has stopped it after SIGSTOP.
func (p *Process) stopped() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return false
	}
	// The state follows the name, which is in parentheses.
	_, rest, ok := bytes.Cut(b, []byte(") "))
	return ok && len(rest) > 0 && rest[0] == 'T'
}

// Output is what the process wrote so far: of much, the first and the last n
// bytes, in whole lines.
func (p *Process) Output(n int) string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	if len(b) <= 2*n {
		return string(b)
	}
	first, last := b[:n], b[len(b)-n:]
	first = first[:bytes.LastIndexByte(first, '\n')+1]
	if _, rest, ok := bytes.Cut(last, []byte("\n")); ok {
		last = rest
	}
	return fmt.Sprintf("%s… %d bytes …\n%s", first, len(b)-len(first)-len(last), last)
}

// crash is the first line in the output that says that the program broke.
func (p *Process) crash() string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		for _, bad := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, bad) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
