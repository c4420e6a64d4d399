//go:build linux

package faultfs

import (
	"errors"
	"syscall"
	"time"
)

// Fault is what becomes of the calls that make data durable: fsync and fdatasync,
// of files and of directories. (A node's Raft log writes by pwrite64 and then
// fdatasync, its other files by write and then fsync; sync_file_range, msync and
// O_SYNC it does not use.)
type Fault struct {
	// Error is what they return, and then they do nothing; 0: they succeed.
	Error syscall.Errno
	// Delay is how long they wait before they do anything. What is longer than a
	// test is a disk that hangs.
	Delay time.Duration
}

// validate wants a fault that does something.
func (f Fault) validate() error {
	if f.Error == 0 && f.Delay <= 0 {
		return errors.New("badisk: a fault needs an error or a delay")
	}
	return nil
}
