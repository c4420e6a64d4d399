//go:build linux

package cluster

import (
	"os/exec"
	"runtime"

	"shardway/e2e/kit/rtprio"
)

// spawner starts children from one thread that lives as long as it does: the
// kernel sends a child its death signal when the thread that started it ends,
// and Go ends threads as it likes.
type spawner struct {
	work chan func()
	done chan struct{}
}

// newSpawner returns a spawner of children that are urgent, or not.
func newSpawner(urgently bool) (*spawner, error) {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // until the thread ends with this goroutine
		var err error
		if urgently {
			err = rtprio.Thread()
		}
		ready <- err
		for f := range s.work {
			f()
		}
	}()
	return s, <-ready
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
