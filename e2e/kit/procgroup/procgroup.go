//go:build linux

// Package child starts programs that die with the test, whatever becomes of that.
package procgroup

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts cmd in a process group of its own. The kernel kills it when the thread ends
// that has started it (prctl(2), PR_SET_PDEATHSIG), and Go ends threads as it likes: that of
// a goroutine which is locked to it ends with that. So cmd has a thread of its own until
// wait, which is cmd.Wait, has returned.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	started, waited := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // until the thread ends with this goroutine
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
