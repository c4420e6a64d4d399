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
	// pipeBytes is how much a pipe holds at most: as much as the two buffers that the
	// connections on both sides have where bytes are copied.
	pipeBytes = 64 << 10
	// maxPipes is how many are lent at once. Each takes two descriptors, and a client
	// that reads slowly keeps its own: what comes beyond is copied.
	maxPipes = 64
)

// pipes lends pipes. Those that nobody uses the garbage collector closes: it empties
// the sync.Pool.
type pipes struct {
	spare   sync.Pool // *pipe
	out     atomic.Int32
	refused atomic.Bool // by the kernel: it does not splice
}

// get returns an empty pipe; nil: there is none.
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

// put takes q back. One that still holds something is closed: that was for somebody else.
func (p *pipes) put(q *pipe) {
	p.out.Add(-1)
	if q.held > 0 {
		q.closed.Stop()
		closePipe(q.fds)
		return
	}
	p.spare.Put(q)
}

// pipe is where bytes are within the kernel on their way from one socket to another.
// One goroutine uses it at a time.
type pipe struct {
	fds    [2]int          // what is read from, what is written to
	closed runtime.Cleanup // of fds, once nobody has the pipe
	held   int             // bytes in it

	fillStep, drainStep func(fd uintptr) bool // p.fill and p.drain, bound once

	most int
	n    int
	err  error
	out  socketWrite // for the deadline of what is drained
}

// newPipe returns nil where no descriptor is left.
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
	_ = unix.Close(fds[0]) // nothing is left to be done about it
	_ = unix.Close(fds[1])
}

// fillFrom waits until something comes by s, and moves what is there, up to most bytes,
// into the pipe, which is empty.
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

// drainTo moves what the pipe holds to s, and waits as socket.send does.
func (p *pipe) drainTo(s *socket, limit time.Duration) (int, error) {
	p.n, p.out = 0, socketWrite{nc: s.out.nc, limit: limit, stopped: s.out.stopped}
	err := s.raw.Write(p.drainStep)
	if err == nil {
		err = p.out.err
	}
	if p.out.armed {
		_ = setWriteDeadline(p.out.nc, p.out.stopped, time.Time{}) // where that fails, so does the next write
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

// move is splice(2), where one of the two is a pipe. It does not wait.
func move(from, to, most int) (int, error) {
	for {
		n, err := unix.Splice(from, nil, to, nil, most, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return int(max(n, 0)), err
		}
	}
}
