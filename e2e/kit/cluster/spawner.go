//go:build linux

package cluster

import (
	"os/exec"
	"runtime"

	"shardway/e2e/kit/rtprio"
)

// spawner starts all children from one thread that lives as long as the spawner. The
// kernel sends a child its death signal when the thread that started it ends, and the Go
// runtime may end any other thread.
type spawner struct {
	tasks chan func()
	done  chan struct{}
}

// newSpawner returns a spawner, whose children have real-time priority if realTime is true.
func newSpawner(realTime bool) (*spawner, error) {
	s := &spawner{tasks: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // the thread ends with this goroutine
		var err error
		if realTime {
			err = rtprio.Thread()
		}
		ready <- err
		for task := range s.tasks {
			task()
		}
	}()
	return s, <-ready
}

// start starts cmd from the thread of the spawner.
func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.tasks <- func() { result <- cmd.Start() }
	return <-result
}

// close must be called after the last child has ended.
func (s *spawner) close() {
	close(s.tasks)
	<-s.done
}
