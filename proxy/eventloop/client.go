package eventloop

import (
	"sync/atomic"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// ResumePoint is the step at which the goroutine of a Client continues after a loop has handed the
// Client off.
type ResumePoint uint8

// The steps of a request at which a loop may stop.
const (
	ResumeNext     ResumePoint = iota // wait for the next request
	ResumeRequest                     // a request header has been read
	ResumeResponse                    // the request was sent; wait for the response
	ResumeDecision                    // an attempt has ended with a decision of the Handler
	ResumeUnsent                      // send the rest of the response
	ResumeFinish                      // the response has been sent; finish the request
)

// Handler executes the steps of the requests of a Client. The goroutine of the loop calls its
// methods.
type Handler interface {
	// HandleReadable is called when the Client waits for a request and may have received data.
	HandleReadable()
	// HandleResponse is called when the Client waits for a response and the upstream connection may
	// have received data.
	HandleResponse()
	// HandlePanic closes the connection after another method has panicked with value.
	HandlePanic(value any)
	// MustLeaveLoop reports whether a Client that joins must return to its goroutine at once, because
	// the connection must end or be parked.
	MustLeaveLoop() bool
	// ResumeInGoroutine continues in a goroutine, at Client.ResumeAt. The loop does not use the Client
	// after that.
	ResumeInGoroutine()
}

// Client is the part of a client connection that event loops use. Init prepares it once, and Open
// for each connection.
type Client struct {
	// Eligibility decides how often the connection is given to a loop.
	Eligibility Eligibility
	// ResumeAt is the step at which the goroutine continues. In a loop, it is ResumeNext while the
	// Client waits for a request, and ResumeResponse while it waits for a response.
	ResumeAt ResumePoint

	conn       *h1.Conn
	handler    Handler
	leaseCheck func() (time.Duration, error)
	wakeup     func() // bound method Wake

	loop    atomic.Pointer[Loop] // loop that serves the Client; nil means that its goroutine does
	group   *Group               // loops that may serve the Client; nil means none
	joining bool                 // Join must be called, and no other goroutine may use the Client until then

	// Only the loop uses the following fields.
	id          uint64 // poller id
	mayHaveData bool   // the socket may have data to read
	inputEnded  bool   // the client has closed its sending side; stored because the kernel reports that only once
	upstream    *registration
}

// registration is the registration of an upstream connection with a loop.
type registration struct {
	id     uint64
	conn   *connpool.Conn
	client *Client // Client whose request the connection carries; nil means none; only the loop uses it
}

// Init sets what all connections of c have in common. If a loop cannot send a whole request without
// blocking, leaseCheck becomes the precondition for sending the rest.
func (c *Client) Init(conn *h1.Conn, handler Handler, leaseCheck func() (time.Duration, error)) {
	c.conn, c.handler, c.leaseCheck = conn, handler, leaseCheck
	c.wakeup = c.Wake
}

// Open allows the loops of group to serve the connection. The goroutine serves the first request,
// which has arrived or is about to arrive.
func (c *Client) Open(group *Group) {
	c.group = group
	c.conn.SetWakeup(&c.wakeup)
	c.Eligibility = Eligibility{skip: 1}
}

// Reset removes the state of a connection that has ended. No loop may use c.
func (c *Client) Reset() {
	c.Eligibility, c.ResumeAt, c.group, c.joining = Eligibility{}, ResumeNext, nil, false
	c.enter(0)
}

// enter resets the state that belongs to a loop.
func (c *Client) enter(id uint64) {
	c.id, c.mayHaveData, c.inputEnded, c.upstream = id, false, false, nil
}

// Loop returns the loop that serves c, or nil if the goroutine of c does. Any goroutine may call it.
func (c *Client) Loop() *Loop { return c.loop.Load() }

// Wake makes the loop hand c off, if a loop serves it. Any goroutine may call it.
func (c *Client) Wake() {
	if loop := c.loop.Load(); loop != nil {
		loop.send(message{client: c})
	}
}

// IsEnabled reports whether loops may serve the connection.
func (c *Client) IsEnabled() bool { return c.group != nil }

// BeginJoin reports whether a loop should serve the next request. IsEnabled must be true. If
// BeginJoin returns true, the goroutine must call Join soon, and must not use the connection in any
// other way.
func (c *Client) BeginJoin() bool {
	if c.Eligibility.skip > 0 {
		c.Eligibility.skip--
		return false
	}
	c.joining = true
	return true
}

// IsJoining reports whether BeginJoin has returned true and Join was not called yet.
func (c *Client) IsJoining() bool { return c.joining }

// Join gives c to the loop with the fewest clients. The caller must not use c after that. If no
// loop can be created, the goroutine of c continues. It tries again a few requests later, unless
// the system supports no event loops.
func (c *Client) Join() {
	c.joining = false
	if loop := c.group.pick(); loop != nil {
		loop.join(c)
		return
	}
	if c.Eligibility.RecordMiss(); c.group.isUnsupported() {
		c.group = nil
	}
	c.handler.ResumeInGoroutine()
}

// HandOff gives c to a goroutine, which continues at the given step. Only the Handler calls it.
func (c *Client) HandOff(resumeAt ResumePoint) { c.loop.Load().handOff(c, resumeAt) }

// ReadRequest reads the header of the next request into req, and reports whether it did. If the
// header is incomplete, a goroutine continues. If nothing has arrived, c continues to wait.
func (c *Client) ReadRequest(req *h1.Request) bool {
	before := c.conn.Received()
	switch c.conn.TryReadRequest(req) {
	case h1.ParseNoData:
		c.mayHaveData = false
		c.conn.ReleaseEmptyBuffers()
	case h1.ParseComplete:
		if c.conn.Received() != before { // if no bytes were read from the socket, its data is still unread, and mayHaveData stays set
			c.mayHaveData = c.inputEnded || c.conn.MayHaveMore()
		}
		return true
	case h1.ParseIncomplete, h1.ParseMustBlock:
		if len(c.conn.Buffered()) > 0 {
			c.Eligibility.RecordMiss()
		}
		c.HandOff(ResumeNext)
	}
	return false
}

// AwaitNext makes c wait for the next request, after the loop has served one.
func (c *Client) AwaitNext() {
	c.Eligibility.recordHit()
	c.ResumeAt = ResumeNext
	c.conn.ReleaseEmptyBuffers()
	if c.mayHaveData || len(c.conn.Buffered()) > 0 {
		loop := c.loop.Load()
		loop.ready = append(loop.ready, c)
	}
}

// RegisterUpstream registers conn, which will carry a request of c, with the loop of c. It returns
// false if that is not possible. The caller must own conn.
func (c *Client) RegisterUpstream(conn *connpool.Conn) bool {
	loop, netConn := c.loop.Load(), conn.NetConn()
	if known := rawio.IsRegistered(netConn); conn.Loop != loop || known {
		if other, ok := conn.Loop.(*Loop); ok {
			_ = other.poller.Remove(netConn) // an error means that it was not watched
			conn.LeaveLoop()
		}
		loop.lastID++
		if known && !detachFromPoller(conn.Conn) || loop.poller.AddEdgeTriggered(netConn, loop.lastID) != nil {
			return false
		}
		added := &registration{id: loop.lastID, conn: conn}
		conn.Loop, conn.Registration = loop, added
		loop.upstreams[loop.lastID] = added
	}
	upstream, _ := conn.Registration.(*registration)
	upstream.client, c.upstream = c, upstream
	conn.SetWakeup(&c.wakeup)
	return true
}

// ReleaseUpstream ends the association of c with the upstream connection of its request, after its
// response was read. The connection stays registered with the poller for later requests.
func (c *Client) ReleaseUpstream() {
	if upstream := c.upstream; upstream != nil {
		upstream.conn.SetWakeup(nil)
		c.unlinkUpstream()
	}
}

// unlinkUpstream is like ReleaseUpstream, but leaves the upstream connection alone, because it may
// already belong to another goroutine.
func (c *Client) unlinkUpstream() {
	if upstream := c.upstream; upstream != nil {
		upstream.client, c.upstream = nil, nil
	}
}
