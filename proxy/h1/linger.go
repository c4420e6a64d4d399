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
	// lingerWhole is the same for a peer that has sent its whole request and acknowledged the
	// whole response: only requests that it sends ahead could still come.
	lingerWhole = time.Second
	// lingerMost is how long a lingering close takes in all.
	lingerMost = 30 * time.Second
	// lingerLook is how often the queue of unacknowledged bytes is looked at.
	lingerLook = time.Second
)

// CloseWrite ends the sending side (FIN) and leaves the receiving one open. It
// reports whether the connection can do that.
func (c *Conn) CloseWrite() bool {
	half, ok := c.nc.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// CloseLinger closes a connection on which unread bytes may be under way, so that the reset they
// would cause does not discard the response before the client has read it (RFC 9112 section 9.6).
// It sends FIN, then reads and drops what the client sends, until the client closes. Without that
// it ends after 5 s in which the client neither sends nor acknowledges anything, and after 30 s in
// any case. After a request that is whole, 1 s without a byte is enough once all is acknowledged,
// where the kernel tells that (Linux). Options.Lingering may end it earlier. The caller has flushed.
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

// dropUntilDeadline reads and drops what comes until the read deadline or another error, and
// reports whether anything came.
func (c *Conn) dropUntilDeadline(sink []byte) (heard bool, err error) {
	for {
		n, err := c.nc.Read(sink)
		heard = heard || n > 0
		if err != nil {
			return heard, err
		}
	}
}

// LingerAfter says what the client may still send of its request when CloseLinger begins.
type LingerAfter uint8

const (
	// PartOfRequest means that the client may be in the middle of its request.
	PartOfRequest LingerAfter = iota
	// WholeRequest means that the request has been read to its end.
	WholeRequest
)

// linger decides when a lingering close ends.
type linger struct {
	request  LingerAfter
	began    time.Time
	sent     time.Time // when the peer was last seen to send something; at first: began
	progress time.Time // when it was last seen to send or acknowledge something; at first: began
	unacked  int       // bytes that the peer had not acknowledged then; -1: not known
}

// over reports whether the connection closes now. heard tells that the peer has sent something
// since the last call, unacked is the present number of unacknowledged bytes, -1 if not known.
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

// unacked returns how many bytes, FIN included, the peer's kernel has not acknowledged; -1 if
// that is not known.
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

// Lingering bounds the number of connections that CloseLinger holds open at the same time: each
// takes a goroutine and a file descriptor for up to 30 s. When one more begins to linger, the one
// that has lingered longest closes. The zero value is ready; all methods are safe for concurrent use.
type Lingering struct {
	// Most is the largest number of lingering connections. Zero means 1024. It must not change
	// once the first connection lingers.
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

// Len returns the number of connections that linger.
func (g *Lingering) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns.Len()
}

// CloseLast closes a connection whose peer has said that it sends nothing more, and of
// which all has been read: at once if it kept its word so far (RFC 9112 section 9.6 has
// it send no other request then), else as CloseLinger does. It saves half of what closing
// costs: nobody waits for the peer's end. The caller has flushed.
func (c *Conn) CloseLast() {
	// Under TLS there is a close_notify to come.
	if s := c.in.sock; s == nil || c.in.buffered() > 0 || c.out.err != nil || !s.endIfSilent(c.in.few[:]) {
		c.CloseLinger(WholeRequest)
		return
	}
	_ = c.Close() // nothing is left to be done about it
}

// Cut closes the connection at once, whatever it carries, so that the peer sees
// a cut and not an end: by a reset where there is TCP, without close_notify on
// TLS, which might wait for a peer that reads nothing. Any goroutine may call it.
func (c *Conn) Abort() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.wakeOwner()
	defer c.in.ready() // as in Close
	return reset(c.nc)
}

// reset closes nc as Cut does: the socket first, then what wraps it.
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
