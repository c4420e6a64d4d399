//go:build linux

package faultfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// glance is how often a call that waits looks whether its process is killed.
const glance = 5 * time.Millisecond

// suffering is what a disk suffers from, in the process that serves it.
type suffering struct {
	mu    sync.Mutex
	fault Fault
	over  chan struct{} // closed when the fault is; nil: the disk is whole
	hits  int           // of the present fault, or the last one
}

// begin ends the fault there was, and begins another.
func (s *suffering) begin(f Fault) {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.over, s.hits = f, make(chan struct{}), 0
}

// end lets all go on that wait.
func (s *suffering) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		close(s.over)
	}
	s.fault, s.over = Fault{}, nil
}

// count is how many calls the present fault has struck, or the last one.
func (s *suffering) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits
}

// meet is called before each call that syncs: it waits as long as the fault says,
// and returns what the call has to return, 0 if it is to be done.
func (s *suffering) meet(ctx context.Context) syscall.Errno {
	f, over := s.strike()
	if over == nil {
		return 0
	}
	delay, look := time.NewTimer(f.Delay), time.NewTicker(glance)
	defer delay.Stop()
	defer look.Stop()
	interrupted := ctx.Done() // by any signal
	for {
		select {
		case <-delay.C:
			return f.Error
		case <-over:
			return 0
		case <-interrupted:
			interrupted = nil // from now on the kernel is silent
		case <-look.C:
			if interrupted == nil && dying(ctx) {
				return syscall.EINTR // nobody will see it
			}
		}
	}
}

// strike counts a call that meets the present fault, and returns that and its end;
// nil if there is none.
func (s *suffering) strike() (f Fault, over <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		return Fault{}, nil
	}
	s.hits++
	return s.fault, s.over
}

// dying tells whether who called was killed, by SIGKILL or by a crash: the kernel
// has it wait for the answer all the same.
func dying(ctx context.Context) bool {
	caller, ok := fuse.FromContext(ctx)
	if !ok || caller.Pid == 0 {
		return false // the kernel itself
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", caller.Pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
