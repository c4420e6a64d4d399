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

// Conn is a TCP connection that is registered with the runtime's poller only when a
// goroutine must wait for it. If the request has arrived when the connection is accepted,
// and the socket buffer takes the response at once, the connection is never registered.
// That saves the registration and its removal, and the system calls and memory that package
// net needs for each connection.
//
// A Conn otherwise behaves like a *net.TCPConn, with these differences:
//
//   - It inherits its socket options from the listening socket.
//   - Concurrent long writes may interleave.
//   - Only a waiting goroutine notices an expired deadline.
//   - Only Close closes it; there is no finalizer.
type Conn struct {
	fd   int
	peer netip.AddrPort

	polled atomic.Pointer[pollerConn] // registration with the poller; written with mu held; nil means not registered
	closed atomic.Bool                // written with mu held

	mu          sync.Mutex
	activeCalls int // calls that use fd directly; the last one closes fd if closed is set
	// readDeadline and writeDeadline apply until the connection is registered. After that, the
	// deadlines of pollerConn.file apply.
	readDeadline, writeDeadline deadline
}

// pollerConn is the registration of a connection with the poller. While it exists, all
// operations go through it.
type pollerConn struct {
	file *os.File
	raw  syscall.RawConn
	Stream
}

// deadline is a deadline of a connection that is not registered.
type deadline struct {
	time    time.Time // zero means no deadline
	expired bool      // time had passed when the deadline was set
}

var (
	_ net.Conn     = (*Conn)(nil)
	_ syscall.Conn = (*Conn)(nil)
)

// SetInheritedOptions sets options on a listening socket that package net would set on each
// connection and that connections from Accept inherit.
func SetInheritedOptions(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// SetUserTimeout sets TCP_USER_TIMEOUT: how long sent data may remain unacknowledged, or
// the peer's window closed, before the kernel breaks the connection. Zero means the default
// of the kernel, about 15 minutes.
func SetUserTimeout(fd uintptr, timeout time.Duration) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
}

// Accept accepts a pending connection of a listening TCP socket, which must be
// non-blocking. It returns nil if there is none or accept fails; net.Listener.Accept then
// reports the error.
func Accept(fd uintptr) net.Conn {
	var sockaddr syscall.RawSockaddrAny
	size := uint32(unsafe.Sizeof(sockaddr))
	for {
		connFD, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, fd, uintptr(unsafe.Pointer(&sockaddr)), uintptr(unsafe.Pointer(&size)), //nolint:gosec // as package syscall does it
			syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		switch {
		case errno == 0:
			return &Conn{fd: int(connFD), peer: parseSockaddr(int(connFD), &sockaddr)}
		case errno != syscall.EINTR && errno != syscall.ECONNABORTED:
			return nil
		}
	}
}

// Adopt returns a Conn for a TCP connection of package net that no goroutine uses. It has
// the same socket, which is no longer registered with the poller. Adopt returns any other
// connection unchanged.
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
	fd, err := duplicateFD(raw)
	if err != nil {
		return conn
	}
	_ = tcp.Close() // closes one of two descriptors
	addrPort := addr.AddrPort()
	return &Conn{fd: fd, peer: netip.AddrPortFrom(addrPort.Addr().Unmap(), addrPort.Port())}
}

// duplicateFD returns another descriptor of a socket.
func duplicateFD(raw syscall.RawConn) (fd int, err error) {
	controlErr := raw.Control(func(original uintptr) { fd, err = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, controlErr)
}

// IsRegistered reports whether conn is a Conn that is registered with the runtime's poller.
func IsRegistered(conn net.Conn) bool {
	c, ok := conn.(*Conn)
	return ok && c.polled.Load() != nil
}

// Unregister removes the connection from the poller until a goroutine waits for it again. The
// caller must be the only user of the connection, must not read or write at the same time, and
// must have removed it from every Poller. Deadlines are cleared. On an error the connection
// is unchanged: it is not a Conn, it is closed, or it is in use.
func Unregister(conn net.Conn) error {
	polledConn, ok := conn.(*Conn)
	if !ok {
		return fmt.Errorf("rawio: detach %T from the poller: %w", conn, os.ErrInvalid)
	}
	polledConn.mu.Lock()
	defer polledConn.mu.Unlock()
	polled := polledConn.polled.Load()
	switch {
	case polledConn.closed.Load():
		return net.ErrClosed
	case polledConn.activeCalls > 0: // a call from before the registration still uses fd
		return syscall.EBUSY
	case polled == nil:
		polledConn.readDeadline, polledConn.writeDeadline = deadline{}, deadline{}
		return nil
	}
	fd, err := duplicateFD(polled.raw)
	if err != nil {
		return err
	}
	polledConn.fd, polledConn.readDeadline, polledConn.writeDeadline = fd, deadline{}, deadline{}
	polledConn.polled.Store(nil)
	_ = polled.file.Close() // closes one of two descriptors
	return nil
}

// parseSockaddr converts a socket address of the kernel, whose port is in network byte order. The
// socket fd resolves the zone of an IPv6 address.
func parseSockaddr(fd int, sockaddr *syscall.RawSockaddrAny) netip.AddrPort {
	port := func(p *uint16) uint16 { b := (*[2]byte)(unsafe.Pointer(p)); return uint16(b[0])<<8 | uint16(b[1]) } //nolint:gosec // as package syscall does it
	switch sockaddr.Addr.Family {
	case syscall.AF_INET:
		in := (*syscall.RawSockaddrInet4)(unsafe.Pointer(sockaddr)) //nolint:gosec // as package syscall does it
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), port(&in.Port))
	case syscall.AF_INET6:
		in := (*syscall.RawSockaddrInet6)(unsafe.Pointer(sockaddr)) //nolint:gosec // as package syscall does it
		return netip.AddrPortFrom(withZone(fd, in.Addr, in.Scope_id), port(&in.Port))
	}
	return netip.AddrPort{}
}

// withZone returns an IPv6 address with its zone. The zone is the name of the link, as in
// package net, or its number if the link has no name. Any socket can resolve link names.
func withZone(fd int, ip [16]byte, zone uint32) netip.Addr {
	addr := netip.AddrFrom16(ip).Unmap()
	if zone == 0 {
		return addr
	}
	link, _ := unix.NewIfreq("") // the empty name is never too long
	link.SetUint32(zone)
	if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, link) != nil || link.Name() == "" {
		return addr.WithZone(strconv.FormatUint(uint64(zone), 10))
	}
	return addr.WithZone(link.Name())
}

// Direct returns true: reading through SyscallConn returns the same data as Read.
func (c *Conn) Direct() bool { return true }

// PeerAddr is RemoteAddr without an allocation.
func (c *Conn) PeerAddr() netip.AddrPort { return c.peer }

// RemoteAddr returns the address of the client.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// LocalAddr returns the address that the kernel reports. It is empty for a closed
// connection.
func (c *Conn) LocalAddr() net.Addr {
	none := &net.TCPAddr{}
	var addr net.Addr = none
	_ = c.control(func(fd uintptr) { // an error leaves it empty
		sa, err := unix.Getsockname(int(fd))
		if err != nil {
			return
		}
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			addr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
		case *unix.SockaddrInet6:
			addr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(withZone(int(fd), sa.Addr, sa.ZoneId), uint16(sa.Port)))
		}
	})
	return addr
}

// acquire lets the caller use fd for non-blocking calls until release. If the connection is
// registered with the poller, it returns the registration instead, and the caller must use
// that and not call release.
func (c *Conn) acquire(deadline *deadline) (*pollerConn, error) {
	if registered := c.polled.Load(); registered != nil {
		return registered, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed.Load():
		return nil, net.ErrClosed
	case c.polled.Load() != nil:
		return c.polled.Load(), nil
	case deadline != nil && deadline.expired:
		return nil, os.ErrDeadlineExceeded
	}
	c.activeCalls++
	return nil, nil //nolint:nilnil // the caller may use fd
}

// release ends the use of fd that acquire began.
func (c *Conn) release() {
	c.mu.Lock()
	c.activeCalls--
	last := c.activeCalls == 0 && c.closed.Load()
	c.mu.Unlock()
	if last {
		_ = c.closeFD() // Close has returned, so the error is lost
	}
}

// register registers the connection with the poller.
func (c *Conn) register() (*pollerConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if registration := c.polled.Load(); registration != nil {
		return registration, nil
	}
	if c.closed.Load() {
		return nil, net.ErrClosed
	}
	file := os.NewFile(uintptr(c.fd), "tcp")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	registration := &pollerConn{file: file, raw: raw}
	registration.Open(raw)
	if !c.readDeadline.time.IsZero() {
		err = file.SetReadDeadline(c.readDeadline.time)
	}
	if !c.writeDeadline.time.IsZero() {
		err = errors.Join(err, file.SetWriteDeadline(c.writeDeadline.time))
	}
	c.polled.Store(registration) // from now on SetDeadline acts on the file, so the deadlines must be copied before
	return registration, err
}

// Read reads available data, or waits for some.
func (c *Conn) Read(p []byte) (int, error) {
	registered, err := c.acquire(&c.readDeadline)
	if err != nil {
		return 0, c.wrap("read", err)
	}
	if registered == nil {
		if n, readErr := c.readAvailable(p); readErr != syscall.EAGAIN { //nolint:errorlint // never wrapped
			return n, c.wrap("read", readErr)
		}
		if registered, err = c.register(); err != nil {
			return 0, c.wrap("read", err)
		}
	}
	n, err := registered.Read(p)
	return n, c.wrap("read", err)
}

// readAvailable reads available data without waiting and calls release. The caller must have
// called acquire.
func (c *Conn) readAvailable(p []byte) (int, error) {
	defer c.release()
	if len(p) == 0 {
		return 0, nil
	}
	n, err := Read(uintptr(c.fd), p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Write writes p and waits until the socket buffer has taken all of it.
func (c *Conn) Write(p []byte) (int, error) {
	registered, err := c.acquire(&c.writeDeadline)
	if err != nil {
		return 0, c.wrap("write", err)
	}
	written := 0
	if registered == nil {
		written, err = Write(uintptr(c.fd), p)
		c.release()
		if written == len(p) || err != nil && err != syscall.EAGAIN { //nolint:errorlint // never wrapped
			return written, c.wrap("write", err)
		}
		if registered, err = c.register(); err != nil {
			return written, c.wrap("write", err)
		}
	}
	n, err := registered.Write(p[written:])
	return written + n, c.wrap("write", err)
}

// wrap converts an error to the form that package net returns.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // never wrapped
		return err
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if c.closed.Load() { // the poller returns a different error for this
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: err}
}

// Close closes the connection and fails all waiting calls. A second call returns an error.
func (c *Conn) Close() error {
	c.mu.Lock()
	wasClosed, inUse := c.closed.Swap(true), c.activeCalls > 0
	c.mu.Unlock()
	switch {
	case wasClosed:
		return c.wrap("close", net.ErrClosed)
	case inUse:
		return nil // the last release closes fd
	}
	return c.wrap("close", c.closeFD())
}

// closeFD closes the socket. The caller must have set closed, and no call may use fd, so it
// runs once. c.mu must not be held: Close of the file waits for goroutines in the poller,
// and they may set deadlines.
func (c *Conn) closeFD() error {
	if p := c.polled.Load(); p != nil {
		return p.file.Close()
	}
	return syscall.Close(c.fd)
}
