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

// Poller watches connections that no goroutine reads, so that an idle connection needs no
// goroutine. It is an epoll set that the runtime's poller handles like one more socket. The
// owner of a connection assigns it an id below 2⁶⁴ − 1 that is never reused. Events refer
// to the id and not to the descriptor, which may belong to another socket by the time the
// event is handled.
type Poller struct {
	epollFile *os.File
	epollConn syscall.RawConn
	pollFunc  func(fd uintptr) bool // the method p.poll, created once to avoid an allocation per call
	wakeFile  *os.File              // eventfd for Wake, never read
	wakeConn  syscall.RawConn       // access to wakeFile
	writeWake func(fd uintptr)      // writeWakeup, created once

	events     [128]unix.EpollEvent
	eventCount int
	waitErr    error
	sinceYield int // events returned since Wait last yielded
}

// maxBeforeYield is the number of events after which Wait yields. Otherwise a Poller that
// always has events would starve the runtime's poller and the goroutines that it wakes.
const maxBeforeYield = 64

// wakeID is the id of the eventfd. Owners must not use it.
const wakeID = math.MaxUint64

// NewPoller returns a Poller without connections.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err = unix.SetNonblock(fd, true); err != nil { // otherwise package os would block a thread in Wait
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &Poller{epollFile: os.NewFile(uintptr(fd), "epoll")}
	if p.epollConn, err = p.epollFile.SyscallConn(); err != nil {
		_ = p.epollFile.Close()
		return nil, err
	}
	if err = p.openWake(); err != nil {
		_ = p.epollFile.Close()
		return nil, err
	}
	p.pollFunc = p.poll
	return p, nil
}

// openWake creates the eventfd and adds it to the epoll set. The runtime's poller does not
// need to watch it: a write would block only after 2⁶⁴ − 2 calls of Wake.
func (p *Poller) openWake() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd2", err)
	}
	p.wakeFile, p.writeWake = os.NewFile(uintptr(fd), "eventfd"), writeWakeup
	if p.wakeConn, err = p.wakeFile.SyscallConn(); err == nil {
		at := p.epollConn.Control(func(at uintptr) {
			err = os.NewSyscallError("epoll_ctl", unix.EpollCtl(int(at), unix.EPOLL_CTL_ADD, fd, eventOf(unix.EPOLLIN|unix.EPOLLET, wakeID)))
		})
		err = errors.Join(err, at)
	}
	if err != nil {
		_ = p.wakeFile.Close()
	}
	return err
}

// eventOf returns the epoll event for an id. The kernel returns the id unchanged.
func eventOf(events uint32, id uint64) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))} // the two halves of the id
}

// Add makes Wait return an event for conn once, as soon as conn has data, an end of stream
// or an error. The caller must call Remove before conn is closed.
func (p *Poller) Add(conn net.Conn, id uint64) error {
	return p.control(conn, unix.EPOLL_CTL_ADD, eventOf(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLONESHOT, id))
}

// AddEdgeTriggered is Add with an event each time that more data arrives (edge-triggered). A reader
// that gets less data than its buffer can hold has read everything, and will get another
// event.
func (p *Poller) AddEdgeTriggered(conn net.Conn, id uint64) error {
	return p.control(conn, unix.EPOLL_CTL_ADD, eventOf(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET, id))
}

// Wake makes the current or the next call of Wait return. It is safe for concurrent use.
func (p *Poller) Wake() {
	_ = p.wakeConn.Control(p.writeWake) // an error means that the Poller is closed
}

// writeWakeup writes to the eventfd.
func writeWakeup(wakeFile uintptr) {
	one := uint64(1)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, wakeFile, uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one)) //nolint:gosec // as package unix does it
}

// Remove ends the watch that Add or AddEdgeTriggered began. Wait may still return an event that it took
// before.
func (p *Poller) Remove(conn net.Conn) error { return p.control(conn, unix.EPOLL_CTL_DEL, nil) }

// control calls epoll_ctl for conn.
func (p *Poller) control(conn net.Conn, op int, event *unix.EpollEvent) error {
	socketConn, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("rawio: socket of %T: %w", conn, os.ErrInvalid)
	}
	raw, err := socketConn.SyscallConn()
	if err != nil {
		return err
	}
	var epollErr error
	err = raw.Control(func(fd uintptr) {
		if controlErr := p.epollConn.Control(func(epollFD uintptr) { epollErr = unix.EpollCtl(int(epollFD), op, int(fd), event) }); controlErr != nil {
			epollErr = controlErr
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("epoll_ctl", epollErr)
}

// Wait blocks until there are events and appends them to events. It appends none if only
// Wake ended the wait. One goroutine may call it at a time. Close makes it return an error.
func (p *Poller) Wait(events []Event) ([]Event, error) {
	p.eventCount, p.waitErr = 0, nil
	if err := p.epollConn.Read(p.pollFunc); err != nil {
		return events, err
	}
	p.sinceYield += p.eventCount
	for _, event := range p.events[:p.eventCount] {
		if id := uint64(uint32(event.Fd)) | uint64(uint32(event.Pad))<<32; id != wakeID {
			events = append(events, Event{id, event.Events&^unix.EPOLLIN != 0})
		}
	}
	return events, os.NewSyscallError("epoll_wait", p.waitErr)
}

// poll takes available events without blocking and reports whether Wait is done. Remaining
// events are returned by the next call: Wait blocks only after a call that found none.
func (p *Poller) poll(fd uintptr) bool {
	if p.sinceYield >= maxBeforeYield {
		p.sinceYield = 0
		p.Wake() // resume in the next round of the runtime's poller, after other goroutines
		return false
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), 0, 0, 0) //nolint:gosec // as package unix does it
		if errno == 0 {
			if p.eventCount = int(n); n == 0 {
				p.sinceYield = 0
			}
			return n != 0
		}
		if errno != unix.EINTR {
			p.eventCount, p.waitErr = 0, errno
			return true
		}
	}
}

// Close ends the Poller and Wait. It does not close the watched connections.
func (p *Poller) Close() error {
	return errors.Join(p.epollFile.Close(), p.wakeFile.Close())
}
