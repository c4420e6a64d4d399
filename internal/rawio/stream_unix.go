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
	raw     syscall.RawConn
	in, out side
	tries   int // number of attempts of the last Read
}

// side is one direction of a Stream. The function step is bound once, so that a call
// allocates no memory.
type side struct {
	mu   sync.Mutex
	step func(fd uintptr) bool
	b    []byte
	n    int
	err  error
}

// Open sets the socket of s. It must be called once, before any other method.
func (s *Stream) Open(raw syscall.RawConn) {
	s.raw, s.in.step, s.out.step = raw, s.read, s.write
}

// Read reads available data, or waits for some.
func (s *Stream) Read(b []byte) (int, error) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	if s.tries = 0; len(b) == 0 {
		return 0, nil
	}
	n, err := s.in.runLocked(b, s.raw.Read)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Tries returns the number of attempts of the last Read. It is 1 if Read did not wait.
func (s *Stream) Tries() int {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.tries
}

// Write writes b and waits until the socket buffer has taken all of it.
func (s *Stream) Write(b []byte) (int, error) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.runLocked(b, s.raw.Write)
}

// runLocked transfers b and waits as needed. d.mu must be held.
func (d *side) runLocked(b []byte, wait func(func(fd uintptr) bool) error) (int, error) {
	d.b, d.n, d.err = b, 0, nil
	err := wait(d.step)
	d.b = nil
	if err == nil {
		err = d.err
	}
	return d.n, err
}

func (s *Stream) read(fd uintptr) bool {
	s.tries++
	s.in.n, s.in.err = Read(fd, s.in.b)
	return s.in.err != syscall.EAGAIN //nolint:errorlint // never wrapped
}

func (s *Stream) write(fd uintptr) bool {
	d := &s.out
	for d.err = nil; d.n < len(d.b) && d.err == nil; {
		var n int
		n, d.err = Write(fd, d.b[d.n:])
		d.n += n
	}
	return d.err != syscall.EAGAIN //nolint:errorlint // never wrapped
}
