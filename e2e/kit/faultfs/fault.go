//go:build linux

package faultfs

import (
	"errors"
	"syscall"
	"time"
)

// Fault affects the calls that persist data: fsync and fdatasync, of files and of
// directories. The Raft log of a node uses pwrite64 and fdatasync, its other files write
// and fsync. Nodes use neither sync_file_range, msync nor O_SYNC.
type Fault struct {
	// Error is the returned error, without any other effect; 0 means success.
	Error syscall.Errno
	// Delay is how long the calls wait before they do anything. A delay longer than a
	// test is a stalled disk.
	Delay time.Duration
}

// validate returns an error for a fault without effect.
func (f Fault) validate() error {
	if f.Error == 0 && f.Delay <= 0 {
		return errors.New("faultfs: a fault needs an error or a delay")
	}
	return nil
}
