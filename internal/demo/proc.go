package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// proc is a process of the demo, which may be restarted.
type proc struct {
	name     string // n1, or n1-app
	node     string // id of the node, also for its app
	isApp    bool
	args     []string
	readyURL string   // URL whose response is a success once the process is ready
	logFile  string   // path of the log
	lock     *os.File // lock of the scratch directory; the process inherits it

	cmd          *exec.Cmd          // nil if the process does not run
	stopReporter context.CancelFunc // ends the goroutine that reports whether the process is ready
	exitedAt     time.Time          // time of the last exit; zero while the process runs
	restartAt    time.Time          // zero means that no restart is scheduled
}

func (p *proc) isRunning() bool { return p.cmd != nil }

// pid returns 0 if the process does not run.
func (p *proc) pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// start starts the process. It logs to its file and, if echo is not nil, to echo. The caller must call
// wait, which returns when the process has exited.
func (p *proc) start(program string, env []string, echo io.Writer) (wait func(), err error) {
	file, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	var w io.Writer = file
	if echo != nil {
		w = io.MultiWriter(file, &prefixer{writer: echo, prefix: fmt.Sprintf("%-6s | ", p.name)})
	}
	//nolint:gosec,noctx // the binary is trusted, and the supervisor stops the processes in a certain order
	cmd := exec.Command(program, p.args...)
	cmd.Env = env
	cmd.SysProcAttr = childAttr()
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = w, w
	cmd.ExtraFiles = []*os.File{p.lock}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), file.Close())
	}
	p.cmd, p.exitedAt, p.restartAt = cmd, time.Time{}, time.Time{}
	return func() {
		// cmd.ProcessState contains the exit status. Errors of the log file have no remedy here.
		_ = cmd.Wait()
		_ = file.Close()
	}, nil
}

// tail returns the last lines of the log, up to 2,000 bytes.
func (p *proc) tail() string {
	b, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	if len(b) > 2000 {
		b = b[len(b)-2000:]
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			b = b[i+1:]
		}
	}
	return string(b)
}
