package h1

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pipeBytes is the maximum content of a pipe. A copy without splice needs the same amount, in
	// the buffers of the two connections.
	pipeBytes = 64 << 10
	// maxPipes is the maximum number of pipes in use. Each pipe needs two file descriptors, and
	// stays in use while its client reads slowly. Further responses are copied.
	maxPipes = 64
)

// pipes is a pool of pipes. The garbage collector empties the sync.Pool, and then closes the unused
// pipes.
type pipes struct {
	spare   sync.Pool // *pipe
	out     atomic.Int32
	refused atomic.Bool // the kernel does not support splice, or DisableSplice was called
}

// DisableSplice makes every Writer copy bodies instead of splicing them.
func (p *Buffers) DisableSplice() { p.pipes.refused.Store(true) }

// get returns an empty pipe, or nil if none is available.
func (p *pipes) get() *pipe {
	if p.refused.Load() {
		return nil
	}
	if p.out.Add(1) <= maxPipes {
		if q, ok := p.spare.Get().(*pipe); ok {
			return q
		}
		if q := newPipe(); q != nil {
			return q
		}
	}
	p.out.Add(-1)
	return nil
}

// put returns q to the pool. It closes a pipe that still contains data, because the data belongs to
// another connection.
func (p *pipes) put(q *pipe) {
	p.out.Add(-1)
	if q.held > 0 {
		q.closed.Stop()
		closePipe(q.fds)
		return
	}
	p.spare.Put(q)
}

// pipe is a kernel pipe through which splice(2) moves bytes from one socket to another. One
// goroutine at a time uses it.
type pipe struct {
	fds    [2]int          // read end, write end
	closed runtime.Cleanup // closes fds when the pipe is unreachable
	held   int             // number of bytes in the pipe

	fillStep, drainStep func(fd uintptr) bool // p.fill and p.drain, bound once

	most int
	n    int
	err  error
	out  socketWrite // sets the deadline while the pipe is drained
}

// newPipe returns a new pipe, or nil if the kernel cannot create one.
func newPipe() *pipe {
	p := &pipe{}
	if unix.Pipe2(p.fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	p.closed = runtime.AddCleanup(p, closePipe, p.fds)
	p.fillStep, p.drainStep = p.fill, p.drain
	return p
}

func closePipe(fds [2]int) {
	_ = unix.Close(fds[0]) // an error does not matter, because the pipe is unused
	_ = unix.Close(fds[1])
}

// fillFrom waits until data arrives on s, and moves up to most bytes of it into the pipe. The pipe
// must be empty.
func (p *pipe) fillFrom(s *socket, most int) (int, error) {
	p.most, p.n, p.err = most, 0, nil
	err := s.raw.Read(p.fillStep)
	if err == nil {
		err = p.err
	}
	p.held = p.n
	return p.n, err
}

func (p *pipe) fill(fd uintptr) bool {
	n, err := move(int(fd), p.fds[1], p.most)
	if err == unix.EAGAIN { //nolint:errorlint // never wrapped
		return false
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	p.n, p.err = n, err
	return true
}

// drainTo moves the content of the pipe to s. It waits like socket.send.
func (p *pipe) drainTo(s *socket, limit time.Duration) (int, error) {
	p.n, p.out = 0, socketWrite{nc: s.out.nc, limit: limit, stopped: s.out.stopped}
	err := s.raw.Write(p.drainStep)
	if err == nil {
		err = p.out.err
	}
	if p.out.armed {
		_ = setWriteDeadline(p.out.nc, p.out.stopped, time.Time{}) // if it fails, the next write fails too
	}
	p.out.nc, p.out.stopped = nil, nil
	return p.n, err
}

func (p *pipe) drain(fd uintptr) bool {
	for p.held > 0 {
		n, err := move(p.fds[0], int(fd), p.held)
		p.n += n
		p.held -= n
		if err == unix.EAGAIN { //nolint:errorlint // never wrapped
			return !p.out.arm()
		}
		if err != nil {
			p.out.err = err
			return true
		}
	}
	return true
}

// move calls splice(2), which needs a pipe on one side. It does not block.
func move(from, to, most int) (int, error) {
	for {
		n, err := unix.Splice(from, nil, to, nil, most, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return int(max(n, 0)), err
		}
	}
}
