//go:build unix

package rawio

import (
	"io"
	"sync"
	"syscall"
)

// Stream reads and writes a socket that does not block, and waits for it as package net
// does, but for a word to the scheduler.
//
// A thread that is in a system call when the kernel gives its core to another loses what it
// runs goroutines with, and on a busy machine each write is such a moment, for it wakes who
// reads; the goroutine goes to the end of all that wait then. And the first such call after the
// process had nothing to do wakes the runtime's monitor thread, which looks around fifty times
// then, with a nap before each: a seventh of what a node did whose requests came by one
// connection for many.
//
// Any goroutine may call it. Its errors are those of the poller, io.EOF, and the kernel's as a
// syscall.Errno.
type Stream struct {
	raw     syscall.RawConn
	in, out side
	tries   int // of the last Read
}

// side is one direction: what is done with the socket until it has to be waited for. It is
// bound once, and takes no memory each time.
type side struct {
	mu   sync.Mutex
	step func(fd uintptr) bool
	b    []byte
	n    int
	err  error
}

// Open makes s the stream of a socket. It must be called first, and once.
func (s *Stream) Open(raw syscall.RawConn) {
	s.raw, s.in.step, s.out.step = raw, s.read, s.write
}

// Read reads what is there, and waits for something.
func (s *Stream) Read(b []byte) (int, error) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	if s.tries = 0; len(b) == 0 {
		return 0, nil
	}
	n, err := s.in.run(b, s.raw.Read)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Tries returns how often the last Read has tried: one that has not waited has once.
func (s *Stream) Tries() int {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.tries
}

// Write writes b, and waits until the socket has taken all of it.
func (s *Stream) Write(b []byte) (int, error) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.run(b, s.raw.Write)
}

// run is called with mu held.
func (d *side) run(b []byte, wait func(func(fd uintptr) bool) error) (int, error) {
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
