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

// proc is one process of the demo, through all its lives.
type proc struct {
	name  string // n1, or n1-app
	node  string // id of the node, also for its app
	isApp bool
	args  []string
	ready string   // URL that answers with success once it serves
	log   string   // file
	lock  *os.File // of the scratch directory, held by the process too

	cmd       *exec.Cmd // nil unless it runs
	stop      context.CancelFunc
	died      time.Time // zero while it runs
	restartAt time.Time // zero: not waiting to be started again
}

func (p *proc) running() bool { return p.cmd != nil }

// pid is 0 unless it runs.
func (p *proc) pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// start runs the program in a process of its own that logs to the proc's file
// and, if echo is not nil, line by line to echo. The caller must wait.
func (p *proc) start(program string, env []string, echo io.Writer) (wait func(), err error) {
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	var w io.Writer = f
	if echo != nil {
		w = io.MultiWriter(f, &prefixer{w: echo, prefix: fmt.Sprintf("%-6s | ", p.name)})
	}
	//nolint:gosec,noctx // our own binary, and the supervisor stops its processes in an order of its own
	cmd := exec.Command(program, p.args...)
	cmd.Env = env
	cmd.SysProcAttr = childAttr()
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = w, w
	cmd.ExtraFiles = []*os.File{p.lock}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), f.Close())
	}
	p.cmd, p.died, p.restartAt = cmd, time.Time{}, time.Time{}
	return func() {
		// How it ended is in cmd.ProcessState, and nothing can be done about a log.
		_ = cmd.Wait()
		_ = f.Close()
	}, nil
}

// tail returns the last lines of the log, for a message about a process that
// did not come up.
func (p *proc) tail() string {
	b, err := os.ReadFile(p.log)
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
