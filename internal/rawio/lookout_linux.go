package rawio

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lookout watches sockets that nobody reads, so that nobody has to stand at each of them:
// an epoll of our own, of which the runtime's poller knows as of one more socket. It knows a
// socket by the number that its owner gave it and no two had, never by its descriptor,
// which another socket may have by the time somebody hears of it.
type Lookout struct {
	file *os.File
	raw  syscall.RawConn
	step func(fd uintptr) bool // l.look, bound once

	events [128]unix.EpollEvent
	n      int
	err    error
}

// NewLookout makes a Lookout that watches nothing yet.
func NewLookout() (*Lookout, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err = unix.SetNonblock(fd, true); err != nil { // else package os has it block a thread
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &Lookout{file: os.NewFile(uintptr(fd), "epoll")}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		_ = l.file.Close()
		return nil, err
	}
	l.step = l.look
	return l, nil
}

// Add has Wait return id, once, as soon as there is something to read from conn, an end or an
// error; at once if there is. Until Remove nobody else may close conn.
func (l *Lookout) Add(conn net.Conn, id uint64) error {
	return l.control(conn, unix.EPOLL_CTL_ADD, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT,
		Fd:     int32(uint32(id)), Pad: int32(uint32(id >> 32)), // its halves
	})
}

// Remove ends what Add began. Wait may still return its number, taken before.
func (l *Lookout) Remove(conn net.Conn) error { return l.control(conn, unix.EPOLL_CTL_DEL, nil) }

// control has the kernel do op with the sockets of l and conn.
func (l *Lookout) control(conn net.Conn, op int, event *unix.EpollEvent) error {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("rawio: socket of %T: %w", conn, os.ErrInvalid)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if gone := l.raw.Control(func(at uintptr) { failed = unix.EpollCtl(int(at), op, int(fd), event) }); gone != nil {
			failed = gone
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("epoll_ctl", failed)
}

// Wait waits until there is something to be heard of sockets, and appends their numbers to
// ready. One goroutine waits at a time; Close ends it with an error.
func (l *Lookout) Wait(ready []uint64) ([]uint64, error) {
	l.n, l.err = 0, nil
	if err := l.raw.Read(l.step); err != nil {
		return ready, err
	}
	for _, e := range l.events[:l.n] {
		ready = append(ready, uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32)
	}
	return ready, os.NewSyscallError("epoll_wait", l.err)
}

// look takes what there is, without waiting. What is left comes with the next look: Wait
// only waits after one that found nothing.
func (l *Lookout) look(fd uintptr) bool {
	for {
		n, err := unix.EpollWait(int(fd), l.events[:], 0)
		if err != unix.EINTR { //nolint:errorlint // never wrapped
			l.n, l.err = max(n, 0), err
			return n != 0
		}
	}
}

// Close ends the watch, and Wait. It closes no socket.
func (l *Lookout) Close() error { return l.file.Close() }
