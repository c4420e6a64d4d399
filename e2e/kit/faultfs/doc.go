//go:build linux

// Package badisk gives processes of a test the disks that fail: one that is
// full, one whose writes end in an error, one that is slow and one that hangs.
//
// Mount makes a small file system; Fill takes all that is left of it, and Free
// gives it back. Suffer lets the calls that make data durable take longer, hang, or
// return an error, and counts them, until Heal. Nothing but the disk is slow: who uses
// it runs as fast as ever (a tracer, the other way to hold a system call, stops every
// call, thread and signal of a process).
//
// A disk is a FUSE file system before a tmpfs that is mounted nowhere. A process of
// its own serves it, so that a test never waits for itself, and precedes all others,
// as a device would: it is the test's program started anew, hence
//
//	func TestMain(m *testing.M) {
//		if badisk.Serve() {
//			return
//		}
//		m.Run()
//	}
//
// What was written is there at once for who has mapped the file. A call that waits does so as on a device that does not
// answer: no signal cuts it short but SIGKILL. One that syncs keeps others away from
// writing to the same file.
//
// The server ends with the process that started it, and then all calls fail. The
// mount it leaves behind carries the pid of that process as its source: Mount
// unmounts those of processes that are no more; Sweep does only that.
//
// It needs root, FUSE, and the right to mount: Available tells.
package faultfs
