//go:build linux

// Package faultfs provides disks with faults for the processes of a test: a full disk, a
// disk whose writes fail, a slow disk and a disk that stalls.
//
// Mount creates a small file system. Fill uses up its space, and Free frees it. SetFault
// makes the calls that persist data slow, blocks them, or makes them fail, and counts
// them, until Heal. Only the disk is slow: processes that use it run at normal speed. (A
// tracer, the other way to delay a system call, would stop every call, thread and signal
// of a process.)
//
// A disk is a FUSE file system in front of an unmounted tmpfs. A separate process serves
// it, so a test never waits for itself. That process has real-time priority, since a
// device does not compete for CPU time. It is another instance of the test program, so
// TestMain must call Serve:
//
//	func TestMain(m *testing.M) {
//		if faultfs.Serve() {
//			return
//		}
//		m.Run()
//	}
//
// A process that has mapped a file sees written data at once. A waiting call behaves as
// on a device that does not respond: only SIGKILL interrupts it. A sync call blocks other
// writes to the same file.
//
// The server ends with the process that started it, and all calls fail after that. The
// source of its mount contains the process ID of that process: Mount unmounts the disks
// of processes that have ended, and UnmountOrphans does only that.
//
// The package needs root, FUSE, and the permission to mount. Available checks that.
package faultfs
