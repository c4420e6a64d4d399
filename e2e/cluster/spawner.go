//go:build linux

package cluster

import (
	"os/exec"
	"runtime"
)

// spawner starts children from one thread that lives as long as it does: the
// kernel sends a child its death signal when the thread that started it ends,
// and Go ends threads as it likes.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

// close must come after the last child has ended.
func (s *spawner) close() {
	close(s.work)
	<-s.done
}
