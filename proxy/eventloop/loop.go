package eventloop

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/h1"
)

// Loop serves the requests of its clients with one goroutine. newLoop starts the goroutine, and
// stop ends it.
type Loop struct {
	poller      *rawio.Poller
	ended       chan struct{} // closed when the goroutine has exited
	clientCount atomic.Int32  // clients of the loop, including those that are about to join
	busyNanos   atomic.Int64  // nanoseconds of work since the last call of Group.Balance

	// Only the goroutine of the loop uses the following fields.
	lastID    uint64                   // last poller id; clients and upstream connections share the ids
	clients   map[uint64]*Client       // by poller id
	upstreams map[uint64]*registration // upstream connections, by poller id
	ready     []*Client                // clients whose next request may have arrived already
	inbox     []message                // messages that are being processed

	mu struct {
		sync.Mutex
		inbox  []message
		woken  bool // the goroutine will process the inbox
		closed bool
	}
}

// message is a request to an event loop: to adopt a client, to hand one off, to remove an upstream
// connection, or to transfer clients to another loop.
type message struct {
	client         *Client
	isJoin         bool
	upstreamID     uint64
	transferCount  int
	transferTarget *Loop
}

// newLoop returns a Loop whose goroutine runs until stop.
func newLoop(newPoller func() (*rawio.Poller, error)) (*Loop, error) {
	poller, err := newPoller()
	if err != nil {
		return nil, err
	}
	loop := &Loop{
		poller: poller, ended: make(chan struct{}),
		clients: make(map[uint64]*Client), upstreams: make(map[uint64]*registration),
	}
	go loop.run() // exits after stop
	return loop, nil
}

// stop ends the loop, which hands off its clients.
func (loop *Loop) stop() {
	_ = loop.poller.Close()
	<-loop.ended
}

// run serves clients until the poller is closed.
func (loop *Loop) run() {
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
func (loop *Loop) handleEvent(event rawio.Event) {
	if c := loop.clients[event.ID]; c != nil {
		c.mayHaveData = true
		c.inputEnded = c.inputEnded || event.End
		if c.ResumeAt == ResumeNext {
			loop.runRecover(c, Handler.HandleReadable)
		}
		return
	}
	upstream := loop.upstreams[event.ID]
	if upstream == nil || upstream.client == nil {
		return
	}
	c := upstream.client
	loop.runRecover(c, Handler.HandleResponse)
	if event.End && upstream.client == c { // the kernel reports the end of the stream only once, and the response is incomplete
		loop.handOff(c, ResumeResponse)
	}
}

// runReady serves each ready client once. A client with another request waits for the next call, so
// that it does not delay the others.
func (loop *Loop) runReady() {
	batch := loop.ready
	loop.ready = nil
	for _, c := range batch {
		if c.loop.Load() == loop && c.ResumeAt == ResumeNext {
			loop.runRecover(c, Handler.HandleReadable)
		}
	}
	clear(batch)
	if loop.ready == nil {
		loop.ready = batch[:0]
	}
}

// runRecover executes a step of c. If the step panics, c is handed off, and its goroutine finds the
// connection closed.
func (loop *Loop) runRecover(c *Client, step func(Handler)) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			c.handler.HandlePanic(panicValue)
			loop.handOff(c, ResumeNext)
		}
	}()
	step(c.handler)
}

// send appends a message to the inbox, and wakes the loop if the message is urgent.
func (loop *Loop) send(msg message) {
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
		msg.client.group = nil
		msg.client.handler.ResumeInGoroutine()
	}
}

// drainInbox processes the messages in the inbox.
func (loop *Loop) drainInbox() {
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
func (loop *Loop) join(c *Client) {
	loop.clientCount.Add(1)
	loop.send(message{client: c, isJoin: true})
}

// adopt registers c with the loop. It checks whether c has been interrupted, because a wakeup
// before this point did not reach the loop.
func (loop *Loop) adopt(c *Client) {
	loop.lastID++
	c.enter(loop.lastID)
	c.conn.Writer().SetNonblocking(true)
	c.loop.Store(loop)
	loop.clients[loop.lastID] = c
	detachFromPoller(c.conn) // otherwise the runtime and the loop would both watch the socket
	if loop.poller.AddEdgeTriggered(c.conn.NetConn(), loop.lastID) != nil || c.handler.MustLeaveLoop() {
		loop.handOff(c, ResumeNext)
		return
	}
	if len(c.conn.Buffered()) > 0 { // its previous loop has read a request
		loop.ready = append(loop.ready, c)
	}
}

// transfer moves count clients that wait for a request to another loop.
func (loop *Loop) transfer(count int, target *Loop) {
	for _, c := range loop.clients {
		if count <= 0 {
			return
		}
		if c.ResumeAt == ResumeNext {
			count--
			loop.detach(c)
			target.join(c)
		}
	}
}

// handleWakeup hands c off after another goroutine has interrupted it.
func (loop *Loop) handleWakeup(c *Client) {
	if c.loop.Load() != loop { // it has been handed off
		return
	}
	if c.ResumeAt == ResumeResponse {
		c.Eligibility.RecordMiss()
	}
	loop.handOff(c, c.ResumeAt)
}

// handOff gives c to a goroutine, which continues at the given step.
func (loop *Loop) handOff(c *Client, resumeAt ResumePoint) {
	if resumeAt == ResumeResponse {
		conn := c.upstream.conn
		conn.SetWakeup(nil)
		if conn.Writer().Pending() > 0 {
			conn.Writer().SetPrecondition(c.leaseCheck) // checks the lease before the rest of the request is sent
		}
	}
	loop.detach(c)
	if c.ResumeAt = resumeAt; resumeAt == ResumeNext {
		c.Eligibility.skipNext() // the goroutine must serve one request before it can hand c to a loop again
	}
	c.handler.ResumeInGoroutine() // c belongs to another goroutine now
}

// detach unregisters c from the loop.
func (loop *Loop) detach(c *Client) {
	delete(loop.clients, c.id)
	c.unlinkUpstream()
	_ = loop.poller.Remove(c.conn.NetConn()) // an error means that the poller does not watch it
	c.conn.Writer().SetNonblocking(false)
	c.loop.Store(nil)
	loop.clientCount.Add(-1)
}

// detachFromPoller removes a connection from the runtime poller, which would otherwise process each
// event as well. It returns false if that is not possible.
func detachFromPoller(conn *h1.Conn) bool {
	if rawio.Unregister(conn.NetConn()) != nil {
		return false
	}
	conn.MarkDeadlinesCleared()
	return true
}

// Unregister removes the registration of an upstream connection. It implements connpool.EventLoop.
func (loop *Loop) Unregister(entry any) {
	if r, ok := entry.(*registration); ok {
		loop.send(message{upstreamID: r.id})
	}
}

// shutDown hands off all clients, and rejects clients that join later.
func (loop *Loop) shutDown() {
	loop.mu.Lock()
	loop.mu.closed = true
	loop.mu.Unlock()
	loop.drainInbox()
	for _, c := range loop.clients {
		loop.handOff(c, c.ResumeAt)
	}
}
