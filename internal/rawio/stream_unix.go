//go:build unix

package rawio

import (
	"io"
	"sync"
	"syscall"
)

// Stream reads and writes a non-blocking socket and waits for it like package net, but its
// system calls do not notify the scheduler.
//
// The notification costs time in two cases. If the kernel preempts a thread in a system
// call, the thread loses its P, and its goroutine goes to the end of the run queue. On a
// busy machine every write risks this, because it wakes the reader. In an idle process the
// first notified system call wakes the runtime's monitor thread, which then polls about
// fifty times with short sleeps. That was a seventh of the CPU time of a node that received
// the requests of many clients over one connection.
//
// Stream is safe for concurrent use. It returns the errors of the poller, io.EOF, and
// errors of the kernel as a syscall.Errno.
type Stream struct {
	raw           syscall.RawConn
	reads, writes direction
	readAttempts  int // number of attempts of the last Read
}

// direction is the state of one direction of a Stream: the current transfer. The method value
// try is created once, so that a transfer allocates no memory.
type direction struct {
	mu          sync.Mutex
	try         func(fd uintptr) bool // tryRead or tryWrite
	buf         []byte                // data to send, or memory for received data
	transferred int                   // bytes of buf that have been transferred
	err         error                 // error of the last system call
}

// Open sets the socket of s. It must be called once, before any other method.
func (s *Stream) Open(raw syscall.RawConn) {
	s.raw, s.reads.try, s.writes.try = raw, s.tryRead, s.tryWrite
}

// Read reads available data, or waits for some.
func (s *Stream) Read(b []byte) (int, error) {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	if s.readAttempts = 0; len(b) == 0 {
		return 0, nil
	}
	n, err := s.reads.transferLocked(b, s.raw.Read)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// ReadAttempts returns the number of attempts of the last Read. It is 1 if Read did not wait.
func (s *Stream) ReadAttempts() int {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	return s.readAttempts
}

// Write writes b and waits until the socket buffer has taken all of it.
func (s *Stream) Write(b []byte) (int, error) {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	return s.writes.transferLocked(b, s.raw.Write)
}

// transferLocked transfers b, and returns the number of bytes. wait calls try, and calls it again
// whenever the socket becomes ready, until try returns true. dir.mu must be held.
func (dir *direction) transferLocked(b []byte, wait func(func(fd uintptr) bool) error) (int, error) {
	dir.buf, dir.transferred, dir.err = b, 0, nil
	err := wait(dir.try)
	dir.buf = nil
	if err == nil {
		err = dir.err
	}
	return dir.transferred, err
}

// tryRead reads once. It returns false if the socket has no data yet.
func (s *Stream) tryRead(fd uintptr) bool {
	s.readAttempts++
	s.reads.transferred, s.reads.err = Read(fd, s.reads.buf)
	return s.reads.err != syscall.EAGAIN //nolint:errorlint // never wrapped
}

// tryWrite writes until the socket accepts no more data. It returns false if data is left.
func (s *Stream) tryWrite(fd uintptr) bool {
	dir := &s.writes
	for dir.err = nil; dir.transferred < len(dir.buf) && dir.err == nil; {
		var n int
		n, dir.err = Write(fd, dir.buf[dir.transferred:])
		dir.transferred += n
	}
	return dir.err != syscall.EAGAIN //nolint:errorlint // never wrapped
}
