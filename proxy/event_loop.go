package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// eventLoop serves small requests of many client connections with one goroutine. A request is small
// if its header and body have arrived, its shard is local, and its response is short. The kernel
// reports which sockets are readable (epoll). The event loop does the work that is possible without
// blocking, and continues with the next socket. So no goroutine is woken for a request, and no read
// precedes the arrival of data.
//
// All other work continues in a goroutine of the connection: steps that must wait, requests that
// are refused, and requests that the event loop does not support.
//
// At any time a client belongs either to its goroutine or to one event loop. The goroutine hands
// the client to an event loop instead of waiting for the next request. The event loop hands it back
// in two cases: the next step would block, or another goroutine interrupts the connection
// (h1.Conn.SetWakeup).
//
//	goroutine ──join──► event loop: waits for a request ──► runs it ──┐
//	    ▲                        │          ▲─────────────────────────┘
//	    └──────── handOff ◄──────┴── with a resumePoint, at which the goroutine continues
//
// The event loop must not block: it does not acquire a lock that may be held for a long time, wait
// for a socket, or write a log. The steps of a request are those of serve.go, router.go and
// attempt_runner.go. event_loop_request.go divides them into the steps before the response and the
// steps after it.
type eventLoop struct {
	poller      *rawio.Poller
	ended       chan struct{} // closed when the goroutine has exited
	clientCount atomic.Int32  // clients of the loop, including those that are about to join
	busyNanos   atomic.Int64  // nanoseconds of work since the last call of eventLoopGroup.balance

	// Only the goroutine of the loop uses the following fields.
	lastID    uint64                           // last poller id; clients and upstream connections share the ids
	clients   map[uint64]*client               // by poller id
	upstreams map[uint64]*upstreamRegistration // upstream connections, by poller id
	ready     []*client                        // clients whose next request may have arrived already
	inbox     []message                        // messages that are being processed

	mu struct {
		sync.Mutex
		inbox  []message
		woken  bool // the goroutine will process the inbox
		closed bool
	}
}

// upstreamRegistration is the registration of an upstream connection with an event loop.
type upstreamRegistration struct {
	id     uint64
	client *client // client whose request the connection carries in the loop; nil means none; only the loop uses it
}

// message is a request to an event loop: to adopt a client, to hand one off, to remove an upstream
// connection, or to transfer clients to another loop.
type message struct {
	client         *client
	isJoin         bool
	upstreamID     uint64
	transferCount  int
	transferTarget *eventLoop
}

func newEventLoop() (*eventLoop, error) {
	poller, err := rawio.NewPoller()
	if err != nil {
		return nil, err
	}
	loop := &eventLoop{
		poller: poller, ended: make(chan struct{}),
		clients: make(map[uint64]*client), upstreams: make(map[uint64]*upstreamRegistration),
	}
	go loop.run() // until close
	return loop, nil
}

// run serves clients until the poller is closed.
func (loop *eventLoop) run() {
	defer close(loop.ended)
	for events := []rawio.Event(nil); ; {
		var err error
		if events, err = loop.poller.Wait(events[:0]); err != nil {
			break
		}
		startedAt := time.Now()
		for _, event := range events {
			loop.handleEvent(event)
		}
		loop.drainInbox()
		for len(loop.ready) > 0 {
			loop.runReady()
		}
		loop.busyNanos.Add(int64(time.Since(startedAt)))
	}
	loop.shutDown()
}

// handleEvent processes an event of a client or of an upstream connection.
func (loop *eventLoop) handleEvent(event rawio.Event) {
	if c := loop.clients[event.ID]; c != nil {
		c.loopState.mayHaveData = true
		c.loopState.clientEnded = c.loopState.clientEnded || event.End
		if c.resumeAt == resumeNext {
			loop.runRecover(c, (*client).handleReadable)
		}
		return
	}
	registration := loop.upstreams[event.ID]
	if registration == nil || registration.client == nil {
		return
	}
	c := registration.client
	loop.runRecover(c, (*client).handleResponse)
	if event.End && registration.client == c { // the response is incomplete, and the kernel reports the end of the stream only once
		loop.handOff(c, resumeResponse)
	}
}

// runReady serves each ready client once. A client with another request waits for the next call, so
// that it does not delay other clients.
func (loop *eventLoop) runReady() {
	batch := loop.ready
	loop.ready = nil
	for _, c := range batch {
		if c.loop.Load() == loop && c.resumeAt == resumeNext {
			loop.runRecover(c, (*client).handleReadable)
		}
	}
	clear(batch)
	if loop.ready == nil {
		loop.ready = batch[:0]
	}
}

// runRecover calls do for a client. If do panics, the client is handed off, and its goroutine then
// closes the connection.
func (loop *eventLoop) runRecover(c *client, step func(*client)) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			if c.exchange.isOpen() {
				c.finishExchange() // as handleRequest does
			}
			c.closeAfterPanic(panicValue)
			loop.handOff(c, resumeNext) // its goroutine finds the connection closed
		}
	}()
	step(c)
}

// send appends a message to the inbox, and wakes the loop if the message is urgent.
func (loop *eventLoop) send(msg message) {
	loop.mu.Lock()
	closed := loop.mu.closed
	wake := !closed && !loop.mu.woken && (msg.client != nil || msg.transferTarget != nil) // the removal of an upstream connection is not urgent
	if !closed {
		loop.mu.inbox = append(loop.mu.inbox, msg)
		loop.mu.woken = loop.mu.woken || wake
	}
	loop.mu.Unlock()
	switch {
	case wake:
		loop.poller.Wake()
	case closed && msg.isJoin:
		loop.clientCount.Add(-1)
		msg.client.eventLoops = nil
		msg.client.watcher.resume(msg.client)
	}
}

// drainInbox processes the messages in the inbox.
func (loop *eventLoop) drainInbox() {
	loop.mu.Lock()
	loop.inbox, loop.mu.inbox, loop.mu.woken = loop.mu.inbox, loop.inbox[:0], false
	loop.mu.Unlock()
	for _, msg := range loop.inbox {
		switch {
		case msg.transferTarget != nil:
			loop.transfer(msg.transferCount, msg.transferTarget)
		case msg.client == nil:
			delete(loop.upstreams, msg.upstreamID)
		case msg.isJoin:
			loop.adopt(msg.client)
		default:
			loop.handleWakeup(msg.client)
		}
	}
	clear(loop.inbox)
}

// join adds c to the loop. The caller must not use c after that.
func (loop *eventLoop) join(c *client) {
	loop.clientCount.Add(1)
	loop.send(message{client: c, isJoin: true})
}

// adopt registers c with the loop. It checks whether c has been interrupted, because the wakeup
// function of c did not reach the loop earlier.
func (loop *eventLoop) adopt(c *client) {
	loop.lastID++
	c.loopState = loopState{id: loop.lastID}
	c.conn.Writer().SetNonblocking(true)
	c.loop.Store(loop)
	loop.clients[loop.lastID] = c
	detachFromPoller(c.conn) // otherwise the runtime and the loop would both watch the socket
	if loop.poller.AddEdgeTriggered(c.conn.NetConn(), loop.lastID) != nil || c.isEnding() || c.parkRequested.Load() {
		loop.handOff(c, resumeNext)
		return
	}
	if len(c.conn.Buffered()) > 0 { // the loop that had it before has read a request
		loop.ready = append(loop.ready, c)
	}
}

// transfer moves n clients that wait for a request to another loop.
func (loop *eventLoop) transfer(count int, target *eventLoop) {
	for _, c := range loop.clients {
		if count <= 0 {
			return
		}
		if c.resumeAt == resumeNext {
			count--
			loop.detach(c)
			target.join(c)
		}
	}
}

// handleWakeup hands c off after another goroutine has interrupted it.
func (loop *eventLoop) handleWakeup(c *client) {
	if c.loop.Load() != loop { // it has been handed off
		return
	}
	if c.resumeAt == resumeResponse {
		c.eligibility.recordMiss()
	}
	loop.handOff(c, c.resumeAt)
}

// handOff gives c to a goroutine, which continues at the step at.
func (loop *eventLoop) handOff(c *client, resumeAt resumePoint) {
	if resumeAt == resumeResponse {
		conn := c.loopAttempt.conn
		conn.SetWakeup(nil)
		if conn.Writer().Pending() > 0 {
			conn.Writer().SetPrecondition(c.leaseCheck) // checks the lease before the rest of the request is sent
		}
	}
	loop.detach(c)
	if c.resumeAt = resumeAt; resumeAt == resumeNext {
		c.eligibility.skip = max(c.eligibility.skip, 1) // the goroutine must serve one request before it can hand c to a loop again
	}
	c.watcher.resume(c) // c belongs to another goroutine now
}

// detach unregisters c from the loop.
func (loop *eventLoop) detach(c *client) {
	delete(loop.clients, c.loopState.id)
	loop.unregisterUpstream(c)
	_ = loop.poller.Remove(c.conn.NetConn()) // an error means that the poller does not watch it
	c.conn.Writer().SetNonblocking(false)
	c.loop.Store(nil)
	loop.clientCount.Add(-1)
}

// unregisterUpstream ends the association of c with the upstream connection of its request. The
// connection stays registered with the poller for later requests.
func (loop *eventLoop) unregisterUpstream(c *client) {
	if slot := c.loopState.upstream; slot != nil {
		slot.client, c.loopState.upstream = nil, nil
	}
}

// registerUpstream registers conn, which will carry a request of c, with the loop. It returns false
// if that is not possible. The caller must own conn.
func (loop *eventLoop) registerUpstream(conn *connpool.Conn, c *client) bool {
	netConn := conn.NetConn()
	if known := rawio.IsRegistered(netConn); conn.Loop != loop || known {
		if other, ok := conn.Loop.(*eventLoop); ok {
			_ = other.poller.Remove(netConn) // an error means that it is not watched
			conn.LeaveLoop()
		}
		loop.lastID++
		if known && !detachFromPoller(conn.Conn) || loop.poller.AddEdgeTriggered(netConn, loop.lastID) != nil {
			return false
		}
		added := &upstreamRegistration{id: loop.lastID}
		conn.Loop, conn.Registration = loop, added
		loop.upstreams[loop.lastID] = added
	}
	registration, _ := conn.Registration.(*upstreamRegistration)
	registration.client, c.loopState.upstream = c, registration
	conn.SetWakeup(&c.wakeLoop)
	return true
}

// detachFromPoller removes a connection from the runtime's poller, which would otherwise also
// process each event. It returns false if that is not possible.
func detachFromPoller(conn *h1.Conn) bool {
	if rawio.Unregister(conn.NetConn()) != nil {
		return false
	}
	conn.MarkDeadlinesCleared()
	return true
}

// Unregister removes the registration of an upstream connection. It implements connpool.EventLoop.
func (loop *eventLoop) Unregister(registration any) {
	if r, ok := registration.(*upstreamRegistration); ok {
		loop.send(message{upstreamID: r.id})
	}
}

// shutDown hands off all clients, and rejects clients that join later.
func (loop *eventLoop) shutDown() {
	loop.mu.Lock()
	loop.mu.closed = true
	loop.mu.Unlock()
	loop.drainInbox()
	for _, c := range loop.clients {
		loop.handOff(c, c.resumeAt)
	}
}
