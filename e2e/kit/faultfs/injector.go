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

// pollInterval is how often a waiting call checks whether its process was killed.
const pollInterval = 5 * time.Millisecond

// injector holds the current fault of a disk, in the process that serves it.
type injector struct {
	mu    sync.Mutex
	fault Fault
	ended chan struct{} // closed at the end of the fault; nil means that there is no fault
	hits  int           // number of calls that the current or the last fault has affected
}

// begin ends the current fault and begins another one.
func (inj *injector) begin(fault Fault) {
	inj.end()
	inj.mu.Lock()
	defer inj.mu.Unlock()
	inj.fault, inj.ended, inj.hits = fault, make(chan struct{}), 0
}

// end ends the current fault, so that delayed calls continue.
func (inj *injector) end() {
	inj.mu.Lock()
	defer inj.mu.Unlock()
	if inj.ended != nil {
		close(inj.ended)
	}
	inj.fault, inj.ended = Fault{}, nil
}

// count returns the number of calls that the current or last fault has affected.
func (inj *injector) count() int {
	inj.mu.Lock()
	defer inj.mu.Unlock()
	return inj.hits
}

// apply must be called before each sync call. It waits as long as the current fault requires, and
// returns the error that the call must return. Zero means that the call must be executed.
func (inj *injector) apply(ctx context.Context) syscall.Errno {
	fault, ended := inj.countHit()
	if ended == nil {
		return 0
	}
	delay, poll := time.NewTimer(fault.Delay), time.NewTicker(pollInterval)
	defer delay.Stop()
	defer poll.Stop()
	interrupted := ctx.Done() // closed when the calling thread gets a signal
	for {
		select {
		case <-delay.C:
			return fault.Error
		case <-ended:
			return 0
		case <-interrupted:
			interrupted = nil // the kernel reports no further signals
		case <-poll.C:
			if interrupted == nil && isKilled(ctx) {
				return syscall.EINTR // no process receives this error
			}
		}
	}
}

// countHit counts an affected call, and returns the current fault and a channel that is closed
// at its end. The channel is nil if there is no fault.
func (inj *injector) countHit() (fault Fault, ended <-chan struct{}) {
	inj.mu.Lock()
	defer inj.mu.Unlock()
	if inj.ended == nil {
		return Fault{}, nil
	}
	inj.hits++
	return inj.fault, inj.ended
}

// isKilled reports whether the calling process was killed by SIGKILL or a crash. The kernel does not
// end a killed process before it has the reply to its call.
func isKilled(ctx context.Context) bool {
	caller, ok := fuse.FromContext(ctx)
	if !ok || caller.Pid == 0 {
		return false // a call of the kernel itself
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", caller.Pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	for line := range strings.Lines(string(data)) {
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
