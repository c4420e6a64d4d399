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
	// pipeBytes is the maximum content of a pipe. Copying without splice needs as much, in the
	// buffers of the two connections.
	pipeBytes = 64 << 10
	// maxPipes is the maximum number of pipes in use. Each pipe needs two file descriptors, and
	// stays in use while its client reads slowly. Further responses are copied.
	maxPipes = 64
)

// pipes is a pool of kernel pipes. The garbage collector empties the sync.Pool, and then closes the
// unused pipes.
type pipes struct {
	unused   sync.Pool // *pipe
	inUse    atomic.Int32
	disabled atomic.Bool // the kernel does not support splice, or DisableSplice was called
}

// DisableSplice makes every Writer copy bodies instead of splicing them.
func (p *Buffers) DisableSplice() { p.pipes.disabled.Store(true) }

// get returns an empty pipe, or nil if none is available.
func (p *pipes) get() *pipe {
	if p.disabled.Load() {
		return nil
	}
	if p.inUse.Add(1) <= maxPipes {
		if unused, ok := p.unused.Get().(*pipe); ok {
			return unused
		}
		if unused := newPipe(); unused != nil {
			return unused
		}
	}
	p.inUse.Add(-1)
	return nil
}

// put returns a pipe to the pool. It closes a pipe that still contains data, because the data
// belongs to another connection.
func (p *pipes) put(unused *pipe) {
	p.inUse.Add(-1)
	if unused.buffered > 0 {
		unused.cleanup.Stop()
		closePipe(unused.fds)
		return
	}
	p.unused.Put(unused)
}

// pipe is a kernel pipe through which splice(2) moves bytes from one socket to another. Only one
// goroutine may use it at a time.
type pipe struct {
	fds      [2]int          // read end, write end
	cleanup  runtime.Cleanup // closes fds when the pipe is unreachable
	buffered int             // number of bytes in the pipe

	// fillStep and drainStep are p.fill and p.drain. They are stored because each use of a method as
	// a value allocates memory.
	fillStep, drainStep func(fd uintptr) bool

	maxBytes int         // maximum number of bytes of the current fill
	moved    int         // bytes moved by the current fill or drain
	err      error       // error of the current fill
	write    socketWrite // write deadline and error of the current drain
}

// newPipe returns a new pipe, or nil if the kernel cannot create one.
func newPipe() *pipe {
	p := &pipe{}
	if unix.Pipe2(p.fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	p.cleanup = runtime.AddCleanup(p, closePipe, p.fds)
	p.fillStep, p.drainStep = p.fill, p.drain
	return p
}

func closePipe(fds [2]int) {
	_ = unix.Close(fds[0]) // an error does not matter, because the pipe is unused
	_ = unix.Close(fds[1])
}

// fillFrom waits until data arrives on the source, and moves up to maxBytes of it into the pipe.
// The pipe must be empty.
func (p *pipe) fillFrom(source *socket, maxBytes int) (int, error) {
	p.maxBytes, p.moved, p.err = maxBytes, 0, nil
	err := source.raw.Read(p.fillStep)
	if err == nil {
		err = p.err
	}
	p.buffered = p.moved
	return p.moved, err
}

// fill splices once from a socket into the pipe. It returns false if the socket has no data.
func (p *pipe) fill(fd uintptr) bool {
	n, err := spliceOnce(int(fd), p.fds[1], p.maxBytes)
	if err == unix.EAGAIN { //nolint:errorlint // never wrapped
		return false
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	p.moved, p.err = n, err
	return true
}

// drainTo moves the content of the pipe to the target. It waits like socket.send.
func (p *pipe) drainTo(target *socket, limit time.Duration) (int, error) {
	p.moved, p.write = 0, socketWrite{nc: target.writes.nc, limit: limit, stopped: target.writes.stopped}
	err := target.raw.Write(p.drainStep)
	if err == nil {
		err = p.write.err
	}
	if p.write.deadlineSet {
		_ = setWriteDeadline(p.write.nc, p.write.stopped, time.Time{}) // if it fails, the next write fails too
	}
	p.write.nc, p.write.stopped = nil, nil
	return p.moved, err
}

// drain splices from the pipe into a socket, until the pipe is empty. It returns false if the socket
// accepts no more data and the deadline has been set.
func (p *pipe) drain(fd uintptr) bool {
	for p.buffered > 0 {
		n, err := spliceOnce(p.fds[0], int(fd), p.buffered)
		p.moved += n
		p.buffered -= n
		if err == unix.EAGAIN { //nolint:errorlint // never wrapped
			return !p.write.startWait()
		}
		if err != nil {
			p.write.err = err
			return true
		}
	}
	return true
}

// spliceOnce calls splice(2), which needs a pipe on one side. It does not block.
func spliceOnce(from, to, maxBytes int) (int, error) {
	for {
		n, err := unix.Splice(from, nil, to, nil, maxBytes, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return int(max(n, 0)), err
		}
	}
}
