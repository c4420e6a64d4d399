//go:build linux

// Package rtprio gives processes of a test real-time priority, for tests of nodes with
// enough CPU time. Otherwise a lease of 500 ms lapses on a machine that delays the leader
// for that long, which is no result of a test about, for example, disks.
package rtprio

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Thread gives this thread, and the processes that it starts from now on, precedence over
// all processes without real-time priority. The caller must have locked its goroutine to
// the thread and must never unlock it, so that the priority ends with both. It needs
// root.
func Thread() error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return fmt.Errorf("rtprio: SCHED_RR: %w", err)
	}
	return nil
}
