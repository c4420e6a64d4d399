package h1

import (
	"cmp"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"shardway/internal/linkedlist"
)

// Limits of CloseLinger. By default, nginx uses the first and the third of these values
// (lingering_timeout and lingering_time).
const (
	// lingerSilence is the maximum time in which the peer neither sends nor acknowledges data.
	lingerSilence = 5 * time.Second
	// lingerAfterWholeRequest is the maximum time for a peer that has sent its complete request and
	// has acknowledged the complete response. By then, only pipelined requests could still arrive.
	lingerAfterWholeRequest = time.Second
	// maxLinger is the maximum duration of a lingering close.
	maxLinger = 30 * time.Second
	// lingerCheckInterval is the interval at which the number of unacknowledged bytes is checked.
	lingerCheckInterval = time.Second
)

// CloseWrite sends a FIN, and leaves the receiving side open. It returns false if the connection
// does not support that, or after an error.
func (c *Conn) CloseWrite() bool {
	closer, ok := c.nc.(interface{ CloseWrite() error })
	return ok && closer.CloseWrite() == nil
}

// CloseLinger closes a connection on which data that has not been read may still arrive. An
// immediate close would cause a TCP reset, which can discard the response before the client has
// read it (RFC 9112 section 9.6). CloseLinger sends a FIN, and then reads and discards data until
// the client closes its side.
//
// CloseLinger also ends after the client has neither sent nor acknowledged data for 5 s, and after
// 30 s in any case. After a complete request, it ends after 1 s without data if the client has
// acknowledged everything and the kernel reports that (Linux). Options.Lingering may end it
// earlier. The caller must have flushed.
func (c *Conn) CloseLinger(request LingerAfter) {
	defer func() { _ = c.Close() }() // an error does not matter, because the connection is unused
	if !c.CloseWrite() {
		return
	}
	if c.lingering != nil {
		defer c.lingering.add(c)()
	}
	c.in.discard(c.in.buffered())
	c.ReleaseEmptyBuffers() // a lingering connection keeps one small buffer
	raw, now := c.in.rawConn(), time.Now()
	state := lingerState{request: request, start: now, lastReceived: now, lastProgress: now, unacked: unackedBytes(raw)}
	sink := c.in.pool.get(smallBuffer)
	defer c.in.pool.put(sink)
	for {
		if c.nc.SetReadDeadline(now.Add(lingerCheckInterval)) != nil {
			return
		}
		received, err := dropUntilDeadline(c.nc, sink)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if now = time.Now(); state.isOver(now, received, unackedBytes(raw)) {
			return
		}
	}
}

// dropUntilDeadline reads and discards data until the read deadline or another error. received
// reports whether any data arrived.
func dropUntilDeadline(nc net.Conn, sink []byte) (received bool, err error) {
	for {
		n, err := nc.Read(sink)
		received = received || n > 0
		if err != nil {
			return received, err
		}
	}
}

// LingerAfter describes how much of the request the client may still send when CloseLinger begins.
type LingerAfter uint8

const (
	// PartOfRequest means that the request may be incomplete.
	PartOfRequest LingerAfter = iota
	// WholeRequest means that the request has been read completely.
	WholeRequest
)

// lingerState determines when a lingering close must end.
type lingerState struct {
	request      LingerAfter
	start        time.Time
	lastReceived time.Time // when data of the peer was last received; initially start
	lastProgress time.Time // when the peer last sent or acknowledged data; initially start
	unacked      int       // number of bytes that the peer had not acknowledged at the last check; -1 means unknown
}

// isOver reports whether the connection must be closed now. received is set if data has arrived
// since the last call. unacked is the current number of unacknowledged bytes, or -1 if it is
// unknown.
func (l *lingerState) isOver(now time.Time, received bool, unacked int) bool {
	if received {
		l.lastReceived, l.lastProgress = now, now
	}
	if unacked < l.unacked {
		l.lastProgress = now
	}
	l.unacked = unacked
	exchangeComplete := l.request == WholeRequest && unacked == 0
	if exchangeComplete && now.Sub(l.lastReceived) >= lingerAfterWholeRequest {
		return true
	}
	return now.Sub(l.lastProgress) >= lingerSilence || now.Sub(l.start) >= maxLinger
}

// unackedBytes returns the number of bytes, including the FIN, that the kernel of the peer has not
// acknowledged. It returns -1 if the number is unknown, and if raw is nil.
func unackedBytes(raw syscall.RawConn) int {
	if raw == nil {
		return -1
	}
	n := -1
	if raw.Control(func(fd uintptr) { n = sendQueue(fd) }) != nil {
		return -1
	}
	return n
}

// Lingering limits the number of connections that are in CloseLinger at the same time, because each
// of them occupies a goroutine and a file descriptor for up to 30 s. At the limit, a new lingering
// connection causes the oldest one to be closed. The zero value is ready to use. All methods are
// safe for concurrent use.
type Lingering struct {
	// Max is the maximum number of lingering connections. Zero means 1024. It must not change
	// after the first connection has begun to linger.
	Max int

	mu    sync.Mutex
	conns linkedlist.List[*lingeringConn] // the connection that has lingered longest is first
}

// lingeringConn is a connection in CloseLinger.
type lingeringConn struct {
	conn    *Conn
	element linkedlist.Element[*lingeringConn] // place in Lingering.conns
}

// add adds c to the lingering connections. The caller must call remove when c no longer lingers.
func (g *Lingering) add(c *Conn) (remove func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	limit := cmp.Or(g.Max, 1024)
	if g.conns.Len() >= limit {
		g.closeOldestLocked()
	}
	lingering := &lingeringConn{conn: c}
	g.conns.PushBack(&lingering.element, lingering)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		lingering.element.Remove() // does nothing if closeOldestLocked has removed it
	}
}

// closeOldestLocked closes the connection that has lingered longest, if there is one. The caller must
// hold g.mu.
func (g *Lingering) closeOldestLocked() {
	oldest := g.conns.First()
	if oldest == nil {
		return
	}
	oldest.element.Remove()
	_ = oldest.conn.Close() // its CloseLinger ends with an error
}

// Len returns the number of lingering connections.
func (g *Lingering) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns.Len()
}

// CloseLast closes a connection whose peer has declared its last request, after everything has been
// read. If no further data has arrived, CloseLast closes the connection immediately: RFC 9112
// section 9.6 forbids the peer to send another request. Not waiting for the peer's FIN halves the
// cost of the close. Otherwise it closes like CloseLinger. The caller must have flushed.
func (c *Conn) CloseLast() {
	// Without a socket there may be TLS, and the peer still sends a close_notify.
	isSilent := c.in.sock != nil && c.in.buffered() == 0 && c.out.err == nil && c.in.sock.closeWriteIfSilent(c.in.smallBuf[:])
	if !isSilent {
		c.CloseLinger(WholeRequest)
		return
	}
	_ = c.Close() // an error does not matter, because the connection is unused
}

// Abort closes the connection immediately, so that the peer does not mistake a truncated message
// for a complete one. With TCP it sends a reset. With TLS it sends no close_notify, which could
// block on a peer that does not read. Any goroutine may call it.
func (c *Conn) Abort() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.wakeup.call()
	defer c.in.onReadable() // as in Close
	return resetConn(c.nc)
}

// resetConn closes nc as described at Abort: first the socket, then its wrappers.
func resetConn(nc net.Conn) error {
	socket := nc
	for next := unwrap(nc); next != nil; next = unwrap(next) {
		socket = next
	}
	if lingerer, ok := socket.(interface{ SetLinger(sec int) error }); ok {
		_ = lingerer.SetLinger(0) // an error does not matter, because the socket is closed next
	} else {
		noLinger(socket)
	}
	if socket == nc {
		return nc.Close()
	}
	err := socket.Close()
	_ = nc.Close() // releases the resources of the wrappers
	return err
}
