//go:build linux

package badisk

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Fault is what becomes of system calls.
type Fault struct {
	// Calls names them, as strace does; none: those that make data durable, fsync
	// and fdatasync. (A node's Raft log writes by pwrite64 and then fdatasync, its
	// other files by write and then fsync; sync_file_range, msync and O_SYNC it
	// does not use.)
	Calls []string
	// Error is what they return, and then they do nothing; 0: they succeed.
	Error syscall.Errno
	// Delay is how long they wait before they do anything.
	Delay time.Duration
}

// args are the arguments of strace for it.
func (f Fault) args() ([]string, error) {
	if f.Error == 0 && f.Delay <= 0 {
		return nil, errors.New("badisk: a fault needs an error or a delay")
	}
	calls := "fsync,fdatasync"
	if len(f.Calls) > 0 {
		calls = strings.Join(f.Calls, ",")
	}
	inject := "inject=" + calls
	if f.Error != 0 {
		inject += fmt.Sprintf(":error=%d", f.Error)
	}
	if f.Delay > 0 {
		inject += fmt.Sprintf(":delay_enter=%d", max(1, f.Delay.Microseconds()))
	}
	return []string{"-e", "trace=" + calls, "-e", inject, "-e", "signal=none"}, nil
}
