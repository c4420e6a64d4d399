//go:build linux && (amd64 || arm64)

package rawio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is a TCP connection that the runtime's poller only comes to know when it has to be
// waited for. One whose request is here when it is accepted, and whose answer the socket
// takes at once, never is: that saves telling the poller of it and of its end, and what
// package net asks of each connection and keeps about it.
//
// It is in all else what a *net.TCPConn is, but for options, which it inherits from the
// listening socket; for long writes of several goroutines at once, which may mix; and for
// a deadline that runs out, which only who has to wait notices. Nothing closes it but Close.
type Conn struct {
	fd   int
	peer netip.AddrPort

	known  atomic.Pointer[polled] // set once, with mu held; nil: the poller does not know it
	closed atomic.Bool            // likewise

	mu    sync.Mutex
	users int // of fd at this moment, who do not wait; the last of them closes it if closed
	// reading and writing are the deadlines until the poller has them.
	reading, writing deadline
}

// polled is a connection as the poller knows it. From then on all goes by it.
type polled struct {
	file *os.File
	raw  syscall.RawConn
	Stream
}

// deadline is one of a connection that the poller does not know.
type deadline struct {
	at   time.Time // zero: none
	past bool      // it was over when it was set
}

var (
	_ net.Conn     = (*Conn)(nil)
	_ syscall.Conn = (*Conn)(nil)
)

// Inherit sets on a listening socket what Accept's connections are to have of package
// net's: the kernel hands it on to those that come from now on.
func Inherit(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// SetUserTimeout sets on a TCP socket how long bytes sent to the peer may stay unacknowledged, or its
// window closed, before the kernel breaks the connection (TCP_USER_TIMEOUT). Zero is the kernel's own
// time, of about 15 minutes.
func SetUserTimeout(fd uintptr, d time.Duration) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}

// Accept takes a connection that waits at a listening TCP socket, which must not block. Nil:
// there is none, or it cannot be taken, for a reason that net.Listener.Accept will tell.
func Accept(fd uintptr) net.Conn {
	var from syscall.RawSockaddrAny
	size := uint32(unsafe.Sizeof(from))
	for {
		got, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, fd, uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)), //nolint:gosec // as package syscall does it
			syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		switch {
		case errno == 0:
			return &Conn{fd: int(got), peer: addrOf(int(got), &from)}
		case errno != syscall.EINTR && errno != syscall.ECONNABORTED:
			return nil
		}
	}
}

// Adopt makes a Conn of a TCP connection that package net has made and nobody uses: the same
// socket, which the runtime's poller forgets. Of any other connection it returns that.
func Adopt(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn
	}
	addr, ok := tcp.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return conn
	}
	fd, err := again(raw)
	if err != nil {
		return conn
	}
	_ = tcp.Close() // one descriptor of two
	at := addr.AddrPort()
	return &Conn{fd: fd, peer: netip.AddrPortFrom(at.Addr().Unmap(), at.Port())}
}

// again returns another descriptor of a socket.
func again(raw syscall.RawConn) (fd int, err error) {
	gone := raw.Control(func(at uintptr) { fd, err = unix.FcntlInt(at, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, gone)
}

// Known reports whether the runtime's poller knows a connection that need not be known to it.
func Known(conn net.Conn) bool {
	c, ok := conn.(*Conn)
	return ok && c.known.Load() != nil
}

// Part has the poller forget the connection, until somebody waits for it again. It is for who
// alone reads and writes it, and does neither meanwhile, nor has a Lookout watch it; deadlines
// are lifted. An error leaves it as it is: it is no Conn, or closed, or in use this moment.
func Part(conn net.Conn) error {
	c, ok := conn.(*Conn)
	if !ok {
		return fmt.Errorf("rawio: part with %T: %w", conn, os.ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.known.Load()
	switch {
	case c.closed.Load():
		return net.ErrClosed
	case c.users > 0: // somebody has fd from before the poller knew it
		return syscall.EBUSY
	case p == nil:
		c.reading, c.writing = deadline{}, deadline{}
		return nil
	}
	fd, err := again(p.raw)
	if err != nil {
		return err
	}
	c.fd, c.reading, c.writing = fd, deadline{}, deadline{}
	c.known.Store(nil)
	_ = p.file.Close() // one descriptor of two
	return nil
}

// addrOf reads an address that socket s has told of, which has its port in network order.
func addrOf(s int, a *syscall.RawSockaddrAny) netip.AddrPort {
	port := func(p *uint16) uint16 { b := (*[2]byte)(unsafe.Pointer(p)); return uint16(b[0])<<8 | uint16(b[1]) } //nolint:gosec // as package syscall does it
	switch a.Addr.Family {
	case syscall.AF_INET:
		in := (*syscall.RawSockaddrInet4)(unsafe.Pointer(a)) //nolint:gosec // likewise
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), port(&in.Port))
	case syscall.AF_INET6:
		in := (*syscall.RawSockaddrInet6)(unsafe.Pointer(a)) //nolint:gosec // likewise
		return netip.AddrPortFrom(zoned(s, in.Addr, in.Scope_id), port(&in.Port))
	}
	return netip.AddrPort{}
}

// zoned returns an address of IPv6 with its zone, which one has that is of one link only: by the
// name of that, as package net has it, or else its number. Any socket knows the names.
func zoned(s int, ip [16]byte, zone uint32) netip.Addr {
	addr := netip.AddrFrom16(ip).Unmap()
	if zone == 0 {
		return addr
	}
	link, _ := unix.NewIfreq("") // never too long
	link.SetUint32(zone)
	if unix.IoctlIfreq(s, unix.SIOCGIFNAME, link) != nil || link.Name() == "" {
		return addr.WithZone(strconv.FormatUint(uint64(zone), 10))
	}
	return addr.WithZone(link.Name())
}

// Direct tells that what SyscallConn reads is what Read reads.
func (c *Conn) Direct() bool { return true }

// PeerAddr is RemoteAddr, without making anything.
func (c *Conn) PeerAddr() netip.AddrPort { return c.peer }

// RemoteAddr is the client's address.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// LocalAddr asks the kernel; of a connection that is closed it is empty.
func (c *Conn) LocalAddr() net.Addr {
	none := &net.TCPAddr{}
	var at net.Addr = none
	_ = c.control(func(fd uintptr) { // an error leaves it empty
		sa, err := unix.Getsockname(int(fd))
		if err != nil {
			return
		}
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			at = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
		case *unix.SockaddrInet6:
			at = net.TCPAddrFromAddrPort(netip.AddrPortFrom(zoned(int(fd), sa.Addr, sa.ZoneId), uint16(sa.Port)))
		}
	})
	return at
}

// enter gives the caller the use of fd until leave, to do what does not wait; or the caller
// is to go by what the poller knows.
func (c *Conn) enter(d *deadline) (*polled, error) {
	if p := c.known.Load(); p != nil {
		return p, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed.Load():
		return nil, net.ErrClosed
	case c.known.Load() != nil:
		return c.known.Load(), nil
	case d != nil && d.past:
		return nil, os.ErrDeadlineExceeded
	}
	c.users++
	return nil, nil //nolint:nilnil // fd is the caller's
}

// leave ends what enter began.
func (c *Conn) leave() {
	c.mu.Lock()
	c.users--
	last := c.users == 0 && c.closed.Load()
	c.mu.Unlock()
	if last {
		_ = c.end() // Close has returned
	}
}

// meet makes the connection known to the poller.
func (c *Conn) meet() (*polled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.known.Load(); p != nil {
		return p, nil
	}
	if c.closed.Load() {
		return nil, net.ErrClosed
	}
	file := os.NewFile(uintptr(c.fd), "tcp")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &polled{file: file, raw: raw}
	p.Open(raw)
	if !c.reading.at.IsZero() {
		err = file.SetReadDeadline(c.reading.at)
	}
	if !c.writing.at.IsZero() {
		err = errors.Join(err, file.SetWriteDeadline(c.writing.at))
	}
	c.known.Store(p) // from here on others set its deadlines, and these are not set again over theirs
	return p, err
}

// Read reads what is there, and waits for something.
func (c *Conn) Read(p []byte) (int, error) {
	known, err := c.enter(&c.reading)
	if err != nil {
		return 0, c.wrap("read", err)
	}
	if known == nil {
		if n, now := c.readNow(p); now != syscall.EAGAIN { //nolint:errorlint // never wrapped
			return n, c.wrap("read", now)
		}
		if known, err = c.meet(); err != nil {
			return 0, c.wrap("read", err)
		}
	}
	n, err := known.Read(p)
	return n, c.wrap("read", err)
}

// readNow reads what is there, between enter and leave.
func (c *Conn) readNow(p []byte) (int, error) {
	defer c.leave()
	if len(p) == 0 {
		return 0, nil
	}
	n, err := Read(uintptr(c.fd), p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Write writes p, and waits until the socket has taken all of it.
func (c *Conn) Write(p []byte) (int, error) {
	known, err := c.enter(&c.writing)
	if err != nil {
		return 0, c.wrap("write", err)
	}
	done := 0
	if known == nil {
		done, err = Write(uintptr(c.fd), p)
		c.leave()
		if done == len(p) || err != nil && err != syscall.EAGAIN { //nolint:errorlint // never wrapped
			return done, c.wrap("write", err)
		}
		if known, err = c.meet(); err != nil {
			return done, c.wrap("write", err)
		}
	}
	n, err := known.Write(p[done:])
	return done + n, c.wrap("write", err)
}

// wrap makes an error what package net's connections return.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // never wrapped
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	if c.closed.Load() { // the poller says it in words of its own
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: err}
}

// Close closes the connection: whatever waits for it fails. A second call fails.
func (c *Conn) Close() error {
	c.mu.Lock()
	before, used := c.closed.Swap(true), c.users > 0
	c.mu.Unlock()
	switch {
	case before:
		return c.wrap("close", net.ErrClosed)
	case used:
		return nil // who leaves last does it, in a moment
	}
	return c.wrap("close", c.end())
}

// end closes fd, after closed is set and with nobody in, so once. Without mu: it waits for those
// whom the poller has, and they may set deadlines.
func (c *Conn) end() error {
	if p := c.known.Load(); p != nil {
		return p.file.Close()
	}
	return syscall.Close(c.fd)
}
