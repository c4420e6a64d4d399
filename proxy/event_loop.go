package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/rawio"
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
// for a socket, or write a log. The steps of a request are those of serve.go. event_loop_request.go
// divides them into the steps before the response and the steps after it.
type eventLoop struct {
	poller      *rawio.Poller
	ended       chan struct{} // closed when the goroutine has exited
	clientCount atomic.Int32  // clients of the loop, including those that are about to join
	busy        atomic.Int64  // nanoseconds of work since the last call of eventLoopGroup.balance

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
	join           bool
	upstream       uint64
	transferCount  int
	transferTarget *eventLoop
}

func newEventLoop() (*eventLoop, error) {
	poller, err := rawio.NewPoller()
	if err != nil {
		return nil, err
	}
	l := &eventLoop{
		poller: poller, ended: make(chan struct{}),
		clients: make(map[uint64]*client), upstreams: make(map[uint64]*upstreamRegistration),
	}
	go l.run() // until close
	return l, nil
}

// run serves clients until the poller is closed.
func (l *eventLoop) run() {
	defer close(l.ended)
	for events := []rawio.Event(nil); ; {
		var err error
		if events, err = l.poller.Wait(events[:0]); err != nil {
			break
		}
		began := time.Now()
		for _, e := range events {
			l.handleEvent(e)
		}
		l.drainInbox()
		for len(l.ready) > 0 {
			l.runReady()
		}
		l.busy.Add(int64(time.Since(began)))
	}
	l.shutDown()
}

// handleEvent processes an event of a client or of an upstream connection.
func (l *eventLoop) handleEvent(e rawio.Event) {
	if c := l.clients[e.ID]; c != nil {
		c.loopState.mayHaveData = true
		c.loopState.clientEnded = c.loopState.clientEnded || e.End
		if c.resumeAt == resumeNext {
			l.runRecover(c, (*client).handleReadable)
		}
		return
	}
	at := l.upstreams[e.ID]
	if at == nil || at.client == nil {
		return
	}
	c := at.client
	l.runRecover(c, (*client).handleResponse)
	if e.End && at.client == c { // the response is incomplete, and the kernel reports the end of the stream only once
		l.handOff(c, resumeResponse)
	}
}

// runReady serves each ready client once. A client with another request waits for the next call, so
// that it does not delay other clients.
func (l *eventLoop) runReady() {
	some := l.ready
	l.ready = nil
	for _, c := range some {
		if c.loop.Load() == l && c.resumeAt == resumeNext {
			l.runRecover(c, (*client).handleReadable)
		}
	}
	clear(some)
	if l.ready == nil {
		l.ready = some[:0]
	}
}

// runRecover calls do for a client. If do panics, the client is handed off, and its goroutine then
// closes the connection.
func (l *eventLoop) runRecover(c *client, do func(*client)) {
	defer func() {
		if v := recover(); v != nil {
			if c.exchange.isOpen() {
				c.finishExchange() // as handleRequest does
			}
			c.closeAfterPanic(v)
			l.handOff(c, resumeNext) // its goroutine finds the connection closed
		}
	}()
	do(c)
}

// send appends a message to the inbox, and wakes the loop if the message is urgent.
func (l *eventLoop) send(n message) {
	l.mu.Lock()
	closed := l.mu.closed
	wake := !closed && !l.mu.woken && (n.client != nil || n.transferTarget != nil) // the removal of an upstream connection is not urgent
	if !closed {
		l.mu.inbox = append(l.mu.inbox, n)
		l.mu.woken = l.mu.woken || wake
	}
	l.mu.Unlock()
	switch {
	case wake:
		l.poller.Wake()
	case closed && n.join:
		l.clientCount.Add(-1)
		n.client.eventLoops = nil
		n.client.watcher.resume(n.client)
	}
}

// drainInbox processes the messages in the inbox.
func (l *eventLoop) drainInbox() {
	l.mu.Lock()
	l.inbox, l.mu.inbox, l.mu.woken = l.mu.inbox, l.inbox[:0], false
	l.mu.Unlock()
	for _, n := range l.inbox {
		switch {
		case n.transferTarget != nil:
			l.transfer(n.transferCount, n.transferTarget)
		case n.client == nil:
			delete(l.upstreams, n.upstream)
		case n.join:
			l.adopt(n.client)
		default:
			l.handleWakeup(n.client)
		}
	}
	clear(l.inbox)
}

// join adds c to the loop. The caller must not use c after that.
func (l *eventLoop) join(c *client) {
	l.clientCount.Add(1)
	l.send(message{client: c, join: true})
}

// adopt registers c with the loop. It checks whether c has been interrupted, because the wakeup
// function of c did not reach the loop earlier.
func (l *eventLoop) adopt(c *client) {
	l.lastID++
	c.loopState = loopState{id: l.lastID}
	c.conn.Writer().SetNonblocking(true)
	c.loop.Store(l)
	l.clients[l.lastID] = c
	detachFromPoller(c.conn) // otherwise the runtime and the loop would both watch the socket
	if l.poller.Keep(c.conn.NetConn(), l.lastID) != nil || c.isEnding() || c.parkRequested.Load() {
		l.handOff(c, resumeNext)
		return
	}
	if len(c.conn.Buffered()) > 0 { // the loop that had it before has read a request
		l.ready = append(l.ready, c)
	}
}

// transfer moves n clients that wait for a request to another loop.
func (l *eventLoop) transfer(n int, to *eventLoop) {
	for _, c := range l.clients {
		if n <= 0 {
			return
		}
		if c.resumeAt == resumeNext {
			n--
			l.detach(c)
			to.join(c)
		}
	}
}

// handleWakeup hands c off after another goroutine has interrupted it.
func (l *eventLoop) handleWakeup(c *client) {
	if c.loop.Load() != l { // it has been handed off
		return
	}
	if c.resumeAt == resumeResponse {
		c.eligibility.recordMiss()
	}
	l.handOff(c, c.resumeAt)
}

// handOff gives c to a goroutine, which continues at the step at.
func (l *eventLoop) handOff(c *client, at resumePoint) {
	if at == resumeResponse {
		k := c.loopAttempt.conn
		k.SetWakeup(nil)
		if k.Writer().Pending() > 0 {
			k.Writer().SetPrecondition(c.leaseCheck) // checks the lease before the rest of the request is sent
		}
	}
	l.detach(c)
	if c.resumeAt = at; at == resumeNext {
		c.eligibility.skip = max(c.eligibility.skip, 1) // the goroutine must serve one request before it can hand c to a loop again
	}
	c.watcher.resume(c) // c must not be used after this
}

// detach unregisters c from the loop.
func (l *eventLoop) detach(c *client) {
	delete(l.clients, c.loopState.id)
	l.unregisterUpstream(c)
	_ = l.poller.Remove(c.conn.NetConn()) // an error means that the poller does not watch it
	c.conn.Writer().SetNonblocking(false)
	c.loop.Store(nil)
	l.clientCount.Add(-1)
}

// unregisterUpstream ends the association of c with the upstream connection of its request. The
// connection stays registered with the poller for later requests.
func (l *eventLoop) unregisterUpstream(c *client) {
	if slot := c.loopState.upstream; slot != nil {
		slot.client, c.loopState.upstream = nil, nil
	}
}

// registerUpstream registers k, which will carry a request of c, with the loop. It returns false if
// that is not possible. The caller must own k.
func (l *eventLoop) registerUpstream(k *upstreamConn, c *client) bool {
	conn := k.NetConn()
	if known := rawio.Known(conn); k.loop != l || known {
		if k.loop != nil {
			_ = k.loop.poller.Remove(conn) // an error means that it is not watched
			k.leaveLoop()
		}
		l.lastID++
		if known && !detachFromPoller(k.Conn) || l.poller.Keep(conn, l.lastID) != nil {
			return false
		}
		k.loop, k.loopRegistration = l, &upstreamRegistration{id: l.lastID}
		l.upstreams[l.lastID] = k.loopRegistration
	}
	k.loopRegistration.client, c.loopState.upstream = c, k.loopRegistration
	k.SetWakeup(&c.wakeLoop)
	return true
}

// detachFromPoller removes a connection from the runtime's poller, which would otherwise also
// process each event. It returns false if that is not possible.
func detachFromPoller(h *h1.Conn) bool {
	if rawio.Part(h.NetConn()) != nil {
		return false
	}
	h.MarkDeadlinesCleared()
	return true
}

// leaveLoop removes k, which is about to be closed, from its event loop. The caller must own k.
func (k *upstreamConn) leaveLoop() {
	if k.loop != nil {
		k.loop.send(message{upstream: k.loopRegistration.id})
		k.loop, k.loopRegistration = nil, nil
	}
}

// shutDown hands off all clients, and rejects clients that join later.
func (l *eventLoop) shutDown() {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.drainInbox()
	for _, c := range l.clients {
		l.handOff(c, c.resumeAt)
	}
}
