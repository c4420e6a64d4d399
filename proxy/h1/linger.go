package h1

import (
	"cmp"
	"container/list"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Bounds of CloseLinger. nginx has the same two by default: lingering_timeout and lingering_time.
const (
	// lingerSilence is how long the peer may neither send nor acknowledge anything.
	lingerSilence = 5 * time.Second
	// lingerWhole is the same for a peer that has sent its complete request and acknowledged the
	// complete response. Only pipelined requests could still arrive.
	lingerWhole = time.Second
	// lingerMost is the maximum duration of a lingering close.
	lingerMost = 30 * time.Second
	// lingerLook is the interval at which the number of unacknowledged bytes is checked.
	lingerLook = time.Second
)

// CloseWrite closes the sending side with a FIN and leaves the receiving side open. It reports
// whether the connection can do that.
func (c *Conn) CloseWrite() bool {
	half, ok := c.nc.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// CloseLinger closes a connection on which unread bytes may be in transit, so that the reset which
// they would cause does not discard the response before the client has read it (RFC 9112 section
// 9.6). It sends FIN, and then reads and discards what the client sends, until the client closes.
// It ends after 5 s in which the client neither sends nor acknowledges anything, and after 30 s in
// any case. After a complete request, 1 s without a byte is sufficient if everything is
// acknowledged and the kernel reports that (Linux). Options.Lingering may end it earlier. The
// caller must have flushed.
func (c *Conn) CloseLinger(request LingerAfter) {
	defer func() { _ = c.Close() }() // nothing is left to be done about it
	if !c.CloseWrite() {
		return
	}
	if c.o.Lingering != nil {
		defer c.o.Lingering.enter(c)()
	}
	c.in.discard(c.in.buffered())
	c.Idle() // a lingering connection keeps one small buffer
	now := time.Now()
	l := linger{request: request, began: now, sent: now, progress: now, unacked: c.unacked()}
	sink := c.o.Buffers.get(smallBuffer)
	defer c.o.Buffers.put(sink)
	for {
		if c.nc.SetReadDeadline(now.Add(lingerLook)) != nil {
			return
		}
		heard, err := c.dropUntilDeadline(sink)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if now = time.Now(); l.over(now, heard, c.unacked()) {
			return
		}
	}
}

// dropUntilDeadline reads and discards data until the read deadline or another error. heard means
// that data arrived.
func (c *Conn) dropUntilDeadline(sink []byte) (heard bool, err error) {
	for {
		n, err := c.nc.Read(sink)
		heard = heard || n > 0
		if err != nil {
			return heard, err
		}
	}
}

// LingerAfter describes what the client may still send of its request when CloseLinger begins.
type LingerAfter uint8

const (
	// PartOfRequest means that the client may be within its request.
	PartOfRequest LingerAfter = iota
	// WholeRequest means that the request has been read completely.
	WholeRequest
)

// linger decides when a lingering close ends.
type linger struct {
	request  LingerAfter
	began    time.Time
	sent     time.Time // when the peer was last seen to send something; initially began
	progress time.Time // when the peer was last seen to send or acknowledge something; initially began
	unacked  int       // bytes that the peer had not acknowledged then; -1 means unknown
}

// over reports whether the connection must be closed now. heard means that the peer has sent
// something since the last call. unacked is the present number of unacknowledged bytes, or -1 if
// unknown.
func (l *linger) over(now time.Time, heard bool, unacked int) bool {
	if heard {
		l.sent, l.progress = now, now
	}
	if unacked < l.unacked {
		l.progress = now
	}
	l.unacked = unacked
	switch {
	case l.request == WholeRequest && unacked == 0 && now.Sub(l.sent) >= lingerWhole:
		return true
	case now.Sub(l.progress) >= lingerSilence:
		return true
	}
	return now.Sub(l.began) >= lingerMost
}

// unacked returns how many bytes, including FIN, the kernel of the peer has not acknowledged, or -1
// if unknown.
func (c *Conn) unacked() int {
	raw := c.rawConn()
	if raw == nil {
		return -1
	}
	n := -1
	if raw.Control(func(fd uintptr) { n = sendQueue(fd) }) != nil {
		return -1
	}
	return n
}

// Lingering limits the number of connections that CloseLinger holds open at the same time: each
// occupies a goroutine and a file descriptor for up to 30 s. When another connection begins to
// linger at the limit, the one that has lingered longest is closed. The zero value is ready to use.
// All methods are safe for concurrent use.
type Lingering struct {
	// Most is the maximum number of lingering connections. Zero means 1024. It must not change once
	// the first connection lingers.
	Most int

	mu    sync.Mutex
	conns list.List // of *Conn, the one that has lingered longest first
}

// enter counts c, which begins to linger, until the returned function is called.
func (g *Lingering) enter(c *Conn) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first := g.conns.Front(); first != nil && g.conns.Len() >= cmp.Or(g.Most, 1024) {
		g.conns.Remove(first)
		if oldest, ok := first.Value.(*Conn); ok {
			_ = oldest.Close() // its CloseLinger ends with an error
		}
	}
	at := g.conns.PushBack(c)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.conns.Remove(at) // does nothing if it has been removed
	}
}

// Len returns the number of lingering connections.
func (g *Lingering) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns.Len()
}

// CloseLast closes a connection whose peer has declared that it sends nothing more, and from which
// everything has been read. If the peer has sent nothing more so far, CloseLast closes at once (RFC
// 9112 section 9.6 forbids the peer to send another request). Otherwise it closes like CloseLinger.
// That halves the cost of closing, because it does not wait for the peer's FIN. The caller must
// have flushed.
func (c *Conn) CloseLast() {
	// Under TLS there is a close_notify to come.
	if s := c.in.sock; s == nil || c.in.buffered() > 0 || c.out.err != nil || !s.endIfSilent(c.in.few[:]) {
		c.CloseLinger(WholeRequest)
		return
	}
	_ = c.Close() // nothing is left to be done about it
}

// Abort closes the connection at once, so that the peer does not take a truncated message for a
// complete one: with a reset where there is TCP, and without close_notify on TLS, which might block
// on a peer that reads nothing. Any goroutine may call it.
func (c *Conn) Abort() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.wakeOwner()
	defer c.in.ready() // as in Close
	return reset(c.nc)
}

// reset closes nc as Abort does: first the socket, then its wrappers.
func reset(nc net.Conn) error {
	socket := nc
	for next := unwrap(nc); next != nil; next = unwrap(next) {
		socket = next
	}
	if t, ok := socket.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0) // closing is what is left
	} else {
		noLinger(socket)
	}
	if socket == nc {
		return nc.Close()
	}
	err := socket.Close()
	_ = nc.Close() // lets go of what it holds
	return err
}
