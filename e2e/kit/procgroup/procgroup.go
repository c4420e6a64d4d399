//go:build linux

// Package procgroup starts programs that die with the test, however the test ends.
package procgroup

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts cmd in its own process group. The kernel kills it when the thread that
// started it ends (prctl(2), PR_SET_PDEATHSIG), and the Go runtime may end any thread
// that no goroutine has locked. So cmd has its own thread until wait, which calls
// cmd.Wait, has returned.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	started, waited := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		failed := cmd.Start()
		started <- failed
		if failed == nil {
			<-waited
		}
	}()
	if err = <-started; err != nil {
		return nil, err
	}
	over := sync.OnceFunc(func() { close(waited) })
	return func() error {
		defer over()
		return cmd.Wait()
	}, nil
}
