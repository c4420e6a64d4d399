//go:build linux

// Package urgent gives processes of a test precedence over all else on the machine,
// for tests of what a node does when it has the processor: a lease of 500 ms lapses
// on a machine that lets the leader wait for as long, and that is no finding about,
// say, disks.
package rtprio

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Thread lets this thread, and the processes that it starts from now on, run before
// all that are not urgent. The caller has locked its goroutine to the thread and
// never unlocks it, so that the precedence ends with both. It needs root.
func Thread() error {
	a := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, &a, 0); err != nil {
		return fmt.Errorf("urgent: SCHED_RR: %w", err)
	}
	return nil
}
