package rawio

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lookout watches sockets that nobody reads, so that nobody has to stand at each of them:
// an epoll of our own, of which the runtime's poller knows as of one more socket. It knows a
// socket by the number that its owner gave it and no two had (below 2⁶⁴ − 1), never by its descriptor,
// which another socket may have by the time somebody hears of it.
type Lookout struct {
	file *os.File
	raw  syscall.RawConn
	step func(fd uintptr) bool // l.look, bound once
	bell *os.File              // an eventfd that is never read, for Wake
	rope syscall.RawConn       // of the bell
	pull func(fd uintptr)      // ring, bound once

	events [128]unix.EpollEvent
	n      int
	err    error
	told   int // of since Wait last gave way to others
}

// longest is how much Wait returns before it gives way: who is always told of something
// would keep the runtime's poller, and all whom that wakes, from their turn.
const longest = 64

// bellID is the number of Wake, and nobody else's.
const bellID = math.MaxUint64

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
	if err = l.hang(); err != nil {
		_ = l.file.Close()
		return nil, err
	}
	l.step = l.look
	return l, nil
}

// hang makes the bell, and watches it. The runtime's poller need not know of it: it does
// not block, as nobody rings it 2⁶⁴ times.
func (l *Lookout) hang() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd2", err)
	}
	l.bell, l.pull = os.NewFile(uintptr(fd), "eventfd"), ring
	if l.rope, err = l.bell.SyscallConn(); err == nil {
		at := l.raw.Control(func(at uintptr) {
			err = os.NewSyscallError("epoll_ctl", unix.EpollCtl(int(at), unix.EPOLL_CTL_ADD, fd, eventOf(unix.EPOLLIN|unix.EPOLLET, bellID)))
		})
		err = errors.Join(err, at)
	}
	if err != nil {
		_ = l.bell.Close()
	}
	return err
}

// eventOf returns what epoll is told of a socket.
func eventOf(events uint32, id uint64) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))} // its halves
}

// Add has Wait return id, once, as soon as there is something to read from conn, an end or an
// error; at once if there is. Until Remove nobody else may close conn.
func (l *Lookout) Add(conn net.Conn, id uint64) error {
	return l.control(conn, unix.EPOLL_CTL_ADD, eventOf(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLONESHOT, id))
}

// Keep is Add for one who is to be told each time that something more has come: who has read
// less than there was room for has read all, and hears of the next.
func (l *Lookout) Keep(conn net.Conn, id uint64) error {
	return l.control(conn, unix.EPOLL_CTL_ADD, eventOf(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET, id))
}

// Wake has Wait return, now or the next time, with what there is. Any goroutine may call it.
func (l *Lookout) Wake() {
	_ = l.rope.Control(l.pull) // it is closed: nobody waits
}

// ring has the kernel tell of the bell.
func ring(bell uintptr) {
	one := uint64(1)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, bell, uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one)) //nolint:gosec // as package unix does it
}

// Remove ends what Add or Keep began. Wait may still return its number, taken before.
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

// Wait waits until there is something to be heard of sockets, and appends what to heard:
// nothing, if it was Wake that ended it. One goroutine waits at a time; Close ends it with an
// error.
func (l *Lookout) Wait(heard []Heard) ([]Heard, error) {
	l.n, l.err = 0, nil
	if err := l.raw.Read(l.step); err != nil {
		return heard, err
	}
	l.told += l.n
	for _, e := range l.events[:l.n] {
		if id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32; id != bellID {
			heard = append(heard, Heard{id, e.Events&^unix.EPOLLIN != 0})
		}
	}
	return heard, os.NewSyscallError("epoll_wait", l.err)
}

// look takes what there is, without waiting. What is left comes with the next look: Wait
// only waits after one that found nothing.
func (l *Lookout) look(fd uintptr) bool {
	if l.told >= longest {
		l.told = 0
		l.Wake() // with those that the poller finds beside it
		return false
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&l.events)), uintptr(len(l.events)), 0, 0, 0) //nolint:gosec // as package unix does it
		if errno == 0 {
			if l.n = int(n); n == 0 {
				l.told = 0
			}
			return n != 0
		}
		if errno != unix.EINTR {
			l.n, l.err = 0, errno
			return true
		}
	}
}

// Close ends the watch, and Wait. It closes no socket that was watched.
func (l *Lookout) Close() error {
	return errors.Join(l.file.Close(), l.bell.Close())
}
