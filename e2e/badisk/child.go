//go:build linux

package badisk

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a process that dies with this one.
type child struct {
	pid    int
	output io.ReadCloser // its standard error
	ended  chan struct{} // latch
	cmd    *exec.Cmd
}

// begin starts a program.
func begin(args ...string) (*child, error) {
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // a program of the test, ended by signal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("badisk: %w", err)
	}
	c := &child{output: out, ended: make(chan struct{}), cmd: cmd}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_, _ = cmd.Process.Wait() // cmd.Wait would close output too early
		}
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("badisk: %w", err)
	}
	c.pid = cmd.Process.Pid
	return c, nil
}

// kill waits for the end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}
