package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/h1"
)

// loop carries the small requests of many clients by one goroutine: those whose head and
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
//	    └───────── leave ◄───────┴── at atNext, atHead, atAnswer, atVerdict, atUnsent or atSettle
//
// What it does never waits: no lock that is held for long, no socket that takes nothing, no
// log. The request itself is that of flow.go (inloop.go says where it is cut in two).
type loop struct {
	lookout *rawio.Poller
	ended   chan struct{} // closed when its goroutine has ended
	many    atomic.Int32  // clients, and those that are to join
	busy    atomic.Int64  // nanoseconds for which it did something, since balance looked

	// Of the goroutine alone.
	last    uint64             // number that was given
	clients map[uint64]*client // by theirs
	perches map[uint64]*perch  // of links, likewise
	more    []*client          // with another request that is here already
	letters []letter           // that are being read

	mu struct {
		sync.Mutex
		letters []letter
		woken   bool // it is going to read them
		closed  bool
	}
}

// perch is the place of a link in a loop.
type perch struct {
	id uint64
	c  *client // whose request it carries in the loop; nil: none does. The loop's
}

// letter tells a loop of a client that joins, or is to leave, or of a link that is gone, or
// how many clients are to go to another loop.
type letter struct {
	c    *client
	join bool
	link uint64
	give int
	to   *loop
}

func newLoop() (*loop, error) {
	lookout, err := rawio.NewPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{
		lookout: lookout, ended: make(chan struct{}),
		clients: make(map[uint64]*client), perches: make(map[uint64]*perch),
	}
	go l.run() // until close
	return l, nil
}

// run carries clients until close.
func (l *loop) run() {
	defer close(l.ended)
	for heard := []rawio.Event(nil); ; {
		var err error
		if heard, err = l.lookout.Wait(heard[:0]); err != nil {
			break
		}
		began := time.Now()
		for _, h := range heard {
			l.hear(h)
		}
		l.read()
		for len(l.more) > 0 {
			l.goOn()
		}
		l.busy.Add(int64(time.Since(began)))
	}
	l.end()
}

// hear does what there is to be done about a socket.
func (l *loop) hear(h rawio.Event) {
	if c := l.clients[h.ID]; c != nil {
		c.looped.speaks = true
		c.looped.ended = c.looped.ended || h.End
		if c.at == atNext {
			l.safely(c, (*client).ask)
		}
		return
	}
	at := l.perches[h.ID]
	if at == nil || at.c == nil {
		return
	}
	c := at.c
	l.safely(c, (*client).answer)
	if h.End && at.c == c { // part of an answer is here, and nobody will say again that it ends
		l.leave(c, atAnswer)
	}
}

// goOn has those go on whose next request may be here already, once each: others have
// their turn in between.
func (l *loop) goOn() {
	some := l.more
	l.more = nil
	for _, c := range some {
		if c.by.Load() == l && c.at == atNext {
			l.safely(c, (*client).ask)
		}
	}
	clear(some)
	if l.more == nil {
		l.more = some[:0]
	}
}

// safely does something for a client, and has it leave where that panics.
func (l *loop) safely(c *client, do func(*client)) {
	defer func() {
		if v := recover(); v != nil {
			if c.x.isOpen() {
				c.over() // as exchange does
			}
			c.fall(v)
			l.leave(c, atNext) // where it meets its end
		}
	}()
	do(c)
}

// post leaves a letter.
func (l *loop) post(n letter) {
	l.mu.Lock()
	closed := l.mu.closed
	wake := !closed && !l.mu.woken && (n.c != nil || n.to != nil) // the others are in no hurry
	if !closed {
		l.mu.letters = append(l.mu.letters, n)
		l.mu.woken = l.mu.woken || wake
	}
	l.mu.Unlock()
	switch {
	case wake:
		l.lookout.Wake()
	case closed && n.join:
		l.many.Add(-1)
		n.c.loops = nil
		n.c.lot.carryOn(n.c)
	}
}

// read reads the letters.
func (l *loop) read() {
	l.mu.Lock()
	l.letters, l.mu.letters, l.mu.woken = l.mu.letters, l.letters[:0], false
	l.mu.Unlock()
	for _, n := range l.letters {
		switch {
		case n.to != nil:
			l.give(n.give, n.to)
		case n.c == nil:
			delete(l.perches, n.link)
		case n.join:
			l.take(n.c)
		default:
			l.evict(n.c)
		}
	}
	clear(l.letters)
}

// join has the loop carry c, whose goroutine has nothing to do with it any more.
func (l *loop) join(c *client) {
	l.many.Add(1)
	l.post(letter{c: c, join: true})
}

// take takes c in. What it was told on its way here nobody has said to the loop.
func (l *loop) take(c *client) {
	l.last++
	c.looped = looped{id: l.last}
	c.h.Writer().SetNonblocking(true)
	c.by.Store(l)
	l.clients[l.last] = c
	parts(c.h) // else it is known to both
	if l.lookout.Keep(c.h.NetConn(), l.last) != nil || c.ends() || c.roused.Load() {
		l.leave(c, atNext)
		return
	}
	if len(c.h.Buffered()) > 0 { // the loop that it comes from has read it
		l.more = append(l.more, c)
	}
}

// give gives n clients that wait for a request to another loop.
func (l *loop) give(n int, to *loop) {
	for _, c := range l.clients {
		if n <= 0 {
			return
		}
		if c.at == atNext {
			n--
			l.part(c)
			to.join(c)
		}
	}
}

// evict has c leave, because it has been told something.
func (l *loop) evict(c *client) {
	if c.by.Load() != l { // it has left
		return
	}
	if c.at == atAnswer {
		c.habit.unfit()
	}
	l.leave(c, c.at)
}

// leave hands c to a goroutine, which goes on at that place.
func (l *loop) leave(c *client, at place) {
	if at == atAnswer {
		k := c.flight.l
		k.SetWakeup(nil)
		if k.Writer().Pending() > 0 {
			k.Writer().Gate(c.gate) // for what is still to be sent
		}
	}
	l.part(c)
	if c.at = at; at == atNext {
		c.habit.rests = max(c.habit.rests, 1) // it has to read, not to come back
	}
	c.lot.carryOn(c) // the last use of it
}

// part has the loop hear no more of c.
func (l *loop) part(c *client) {
	delete(l.clients, c.looped.id)
	l.land(c)
	_ = l.lookout.Remove(c.h.NetConn()) // an error means that nobody watches it any more
	c.h.Writer().SetNonblocking(false)
	c.by.Store(nil)
	l.many.Add(-1)
}

// land has the loop hear no more of the link by which c has a request under way, if it has.
func (l *loop) land(c *client) {
	if at := c.looped.perch; at != nil {
		at.c, c.looped.perch = nil, nil
	}
}

// fly has the loop hear of k, which is the caller's and is to carry a request of c. False: it
// cannot.
func (l *loop) fly(k *link, c *client) bool {
	conn := k.NetConn()
	if known := rawio.Known(conn); k.by != l || known {
		if k.by != nil {
			_ = k.by.lookout.Remove(conn) // as in part
			k.unheard()
		}
		l.last++
		if known && !parts(k.Conn) || l.lookout.Keep(conn, l.last) != nil {
			return false
		}
		k.by, k.perch = l, &perch{id: l.last}
		l.perches[l.last] = k.perch
	}
	k.perch.c, c.looped.perch = c, k.perch
	k.SetWakeup(&c.poke)
	return true
}

// parts has the runtime's poller forget a connection, which would be told of all that the loop
// is told of.
func parts(h *h1.Conn) bool {
	if rawio.Part(h.NetConn()) != nil {
		return false
	}
	h.MarkDeadlinesCleared()
	return true
}

// unheard tells the loop that heard of k that it is gone. K is the caller's.
func (k *link) unheard() {
	if k.by != nil {
		k.by.post(letter{link: k.perch.id})
		k.by, k.perch = nil, nil
	}
}

// end hands over all that the loop has, and those that come from now on.
func (l *loop) end() {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.read()
	for _, c := range l.clients {
		l.leave(c, c.at)
	}
}
