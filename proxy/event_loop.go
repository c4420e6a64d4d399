package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/h1"
)

// eventLoop carries the small requests of many clients by one goroutine: those whose head and
// body are here, whose shard is local, and whose answer is short. It hears from the kernel
// what has come, does what is to be done at once, and goes on to the next; nobody is woken
// for a request, and nothing is read before it is there. Everything else it leaves, as it was
// found, to a goroutine of the connection's own: what has to be waited for, refused or told.
//
// A client is at any time one's alone: a goroutine's, which runs requests, or a loop's. It
// comes where its goroutine would wait for the next request, and leaves for what the loop
// cannot do, or because somebody from outside has told its connections something (h1.Conn's
// Heed): then its goroutine does what it would have done all along.
//
//	goroutine ──join──► loop: waits for a request ──► runs one ──┐
//	    ▲                        │          ▲────────────────────┘
//	    └───────── leave ◄───────┴── at resumeNext, resumeRequest, resumeResponse, resumeDecision, resumeUnsent or resumeFinish
//
// What it does never waits: no lock that is held for long, no socket that takes nothing, no
// log. The request itself is that of serve.go (event_loop_request.go says where it is cut in two).
type eventLoop struct {
	poller      *rawio.Poller
	ended       chan struct{} // closed when its goroutine has ended
	clientCount atomic.Int32  // clients, and those that are to join
	busy        atomic.Int64  // nanoseconds for which it did something, since balance looked

	// Of the goroutine alone.
	lastID    uint64                   // number that was given
	clients   map[uint64]*client       // by theirs
	upstreams map[uint64]*upstreamSlot // of links, likewise
	ready     []*client                // with another request that is here already
	inbox     []message                // that are being read

	mu struct {
		sync.Mutex
		inbox  []message
		woken  bool // it is going to read them
		closed bool
	}
}

// upstreamSlot is the place of a link in a loop.
type upstreamSlot struct {
	id uint64
	c  *client // whose request it carries in the loop; nil: none does. The loop's
}

// message tells a loop of a client that joins, or is to leave, or of a link that is gone, or
// how many clients are to go to another loop.
type message struct {
	c        *client
	join     bool
	upstream uint64
	give     int
	to       *eventLoop
}

func newEventLoop() (*eventLoop, error) {
	lookout, err := rawio.NewPoller()
	if err != nil {
		return nil, err
	}
	l := &eventLoop{
		poller: lookout, ended: make(chan struct{}),
		clients: make(map[uint64]*client), upstreams: make(map[uint64]*upstreamSlot),
	}
	go l.run() // until close
	return l, nil
}

// run carries clients until close.
func (l *eventLoop) run() {
	defer close(l.ended)
	for heard := []rawio.Event(nil); ; {
		var err error
		if heard, err = l.poller.Wait(heard[:0]); err != nil {
			break
		}
		began := time.Now()
		for _, h := range heard {
			l.handleEvent(h)
		}
		l.drainInbox()
		for len(l.ready) > 0 {
			l.runReady()
		}
		l.busy.Add(int64(time.Since(began)))
	}
	l.shutDown()
}

// handleEvent does what there is to be done about a socket.
func (l *eventLoop) handleEvent(h rawio.Event) {
	if c := l.clients[h.ID]; c != nil {
		c.loopState.mayHaveData = true
		c.loopState.clientEnded = c.loopState.clientEnded || h.End
		if c.resumeAt == resumeNext {
			l.runRecover(c, (*client).handleReadable)
		}
		return
	}
	at := l.upstreams[h.ID]
	if at == nil || at.c == nil {
		return
	}
	c := at.c
	l.runRecover(c, (*client).handleResponse)
	if h.End && at.c == c { // part of an answer is here, and nobody will say again that it ends
		l.handOff(c, resumeResponse)
	}
}

// runReady has those go on whose next request may be here already, once each: others have
// their turn in between.
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

// runRecover does something for a client, and has it leave where that panics.
func (l *eventLoop) runRecover(c *client, do func(*client)) {
	defer func() {
		if v := recover(); v != nil {
			if c.x.isOpen() {
				c.finishExchange() // as exchange does
			}
			c.fall(v)
			l.handOff(c, resumeNext) // where it meets its end
		}
	}()
	do(c)
}

// send leaves a letter.
func (l *eventLoop) send(n message) {
	l.mu.Lock()
	closed := l.mu.closed
	wake := !closed && !l.mu.woken && (n.c != nil || n.to != nil) // the others are in no hurry
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
		n.c.eventLoops = nil
		n.c.watcher.resume(n.c)
	}
}

// drainInbox reads the letters.
func (l *eventLoop) drainInbox() {
	l.mu.Lock()
	l.inbox, l.mu.inbox, l.mu.woken = l.mu.inbox, l.inbox[:0], false
	l.mu.Unlock()
	for _, n := range l.inbox {
		switch {
		case n.to != nil:
			l.transfer(n.give, n.to)
		case n.c == nil:
			delete(l.upstreams, n.upstream)
		case n.join:
			l.adopt(n.c)
		default:
			l.handleWakeup(n.c)
		}
	}
	clear(l.inbox)
}

// join has the loop carry c, whose goroutine has nothing to do with it any more.
func (l *eventLoop) join(c *client) {
	l.clientCount.Add(1)
	l.send(message{c: c, join: true})
}

// adopt takes c in. What it was told on its way here nobody has said to the loop.
func (l *eventLoop) adopt(c *client) {
	l.lastID++
	c.loopState = loopState{id: l.lastID}
	c.h.Writer().SetNonblocking(true)
	c.loop.Store(l)
	l.clients[l.lastID] = c
	detachFromPoller(c.h) // else it is known to both
	if l.poller.Keep(c.h.NetConn(), l.lastID) != nil || c.isEnding() || c.parkRequested.Load() {
		l.handOff(c, resumeNext)
		return
	}
	if len(c.h.Buffered()) > 0 { // the loop that it comes from has read it
		l.ready = append(l.ready, c)
	}
}

// transfer gives n clients that wait for a request to another loop.
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

// handleWakeup has c leave, because it has been told something.
func (l *eventLoop) handleWakeup(c *client) {
	if c.loop.Load() != l { // it has left
		return
	}
	if c.resumeAt == resumeResponse {
		c.eligibility.recordMiss()
	}
	l.handOff(c, c.resumeAt)
}

// handOff hands c to a goroutine, which goes on at that place.
func (l *eventLoop) handOff(c *client, at resumePoint) {
	if at == resumeResponse {
		k := c.loopAttempt.conn
		k.SetWakeup(nil)
		if k.Writer().Pending() > 0 {
			k.Writer().SetPrecondition(c.leaseCheck) // for what is still to be sent
		}
	}
	l.detach(c)
	if c.resumeAt = at; at == resumeNext {
		c.eligibility.skip = max(c.eligibility.skip, 1) // it has to read, not to come back
	}
	c.watcher.resume(c) // the last use of it
}

// detach has the loop hear no more of c.
func (l *eventLoop) detach(c *client) {
	delete(l.clients, c.loopState.id)
	l.unregisterUpstream(c)
	_ = l.poller.Remove(c.h.NetConn()) // an error means that nobody watches it any more
	c.h.Writer().SetNonblocking(false)
	c.loop.Store(nil)
	l.clientCount.Add(-1)
}

// unregisterUpstream has the loop hear no more of the link by which c has a request under way, if it has.
func (l *eventLoop) unregisterUpstream(c *client) {
	if at := c.loopState.upstream; at != nil {
		at.c, c.loopState.upstream = nil, nil
	}
}

// registerUpstream has the loop hear of k, which is the caller's and is to carry a request of c. False: it
// cannot.
func (l *eventLoop) registerUpstream(k *upstreamConn, c *client) bool {
	conn := k.NetConn()
	if known := rawio.Known(conn); k.loop != l || known {
		if k.loop != nil {
			_ = k.loop.poller.Remove(conn) // as in part
			k.leaveLoop()
		}
		l.lastID++
		if known && !detachFromPoller(k.Conn) || l.poller.Keep(conn, l.lastID) != nil {
			return false
		}
		k.loop, k.loopSlot = l, &upstreamSlot{id: l.lastID}
		l.upstreams[l.lastID] = k.loopSlot
	}
	k.loopSlot.c, c.loopState.upstream = c, k.loopSlot
	k.SetWakeup(&c.wakeLoop)
	return true
}

// detachFromPoller has the runtime's poller forget a connection, which would be told of all that the loop
// is told of.
func detachFromPoller(h *h1.Conn) bool {
	if rawio.Part(h.NetConn()) != nil {
		return false
	}
	h.MarkDeadlinesCleared()
	return true
}

// leaveLoop tells the loop that heard of k that it is gone. K is the caller's.
func (k *upstreamConn) leaveLoop() {
	if k.loop != nil {
		k.loop.send(message{upstream: k.loopSlot.id})
		k.loop, k.loopSlot = nil, nil
	}
}

// shutDown hands over all that the loop has, and those that come from now on.
func (l *eventLoop) shutDown() {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.drainInbox()
	for _, c := range l.clients {
		l.handOff(c, c.resumeAt)
	}
}
