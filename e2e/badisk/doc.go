//go:build linux

// Package badisk gives processes of a test the disks that fail: one that is
// full, one whose writes end in an error, one that is slow and one that hangs.
//
// Mount makes a small file system in memory; Fill takes all that is left of it,
// and Free gives it back. Trace attaches strace to a process that runs, so that
// some of its system calls return an error, or take their time; Stop takes strace
// away, and the process goes on as if nothing had been.
//
// What is traced runs slower: every system call of it stops twice, not only those
// that fail. A process that SIGSTOP has stopped stays so when it is traced, but
// /proc shows it as "t", as it shows every traced one that waits for its tracer.
//
// A mount carries the pid of the process that made it as its source, and Mount
// unmounts what those left behind that are no more; Sweep does only that. strace
// ends with the process that started it, and what it traced goes on.
//
// It needs root, strace, and the right to mount and to trace: Available tells.
package badisk
