package proxy

import (
	"sync/atomic"

	"shardway/proxy/h1"
	"shardway/shardmap"
)

// slot is where others find what a connection runs at the moment. Its goroutine
// begins and finishes runs; anyone may cut one. All of it hangs on one word that
// both sides change by compare-and-swap, so a run is either finished, and its
// link may be used again, or cut, and the one who cut it closes the link: never
// both.
//
//	idle ──begin──► running ──mark──► answered ──finish──► idle
//	                   └───────cut───────┴───► cut ──finish──┘
//
// A run begins before the node admits it and before the table is looked at for
// the last time, so whoever changes those first and cuts then misses none.
type slot struct {
	// word: run number (32 bits), shard (16), slotSafe (1), cause (7), flags (8).
	word atomic.Uint64
	// conn is what the run goes over; stored before word, so that whoever reads
	// a word, then link, and then swaps that same word, has that run's.
	conn atomic.Pointer[upstreamConn]
	// node is the owner a remote run went to, stored like link.
	node atomic.Pointer[string]
	// tunnel is the WebSocket that a tunnel carries; nil for any other.
	tunnel atomic.Pointer[webSocket]
	// webSocket is the kept socket that the run carries, while it has slotSocket.
	webSocket atomic.Pointer[webSocketRelay]
	// events is an event stream, while the run has slotEvents.
	events events
	// client is the connection the request came by.
	client *h1.Conn
}

const (
	slotKind     = 0x03    // a Kind; zero is idle
	slotAnswered = 0x04    // bytes of the answer go to the client
	slotTunnel   = 0x08    // upgraded
	slotKeyless  = 0x10    // no shard: the key sources found nothing, on-missing-key is local
	slotEvents   = 0x20    // the answer is an event stream
	slotKept     = 0x40    // its client is kept when the run ends
	slotSocket   = 0x80    // a WebSocket that outlives this run
	slotCause    = 8       // shift
	slotSafe     = 1 << 15 // the method is GET, HEAD or OPTIONS
	slotShard    = 16      // shift
	slotRun      = 32      // shift
)

// run describes what a slot holds.
type run struct {
	number uint32
	kind   Kind // zero: idle
	shard  shardmap.Shard
	flags  uint64
	cause  cause
}

// decode reads a slot's word.
func decode(word uint64) run {
	return run{
		number: uint32(word >> slotRun),
		kind:   Kind(word & slotKind),
		shard:  shardmap.Shard(uint16(word >> slotShard)),
		flags:  word & (0xff | slotSafe),
		cause:  cause(uint8(word>>slotCause) & 0x7f),
	}
}

// isEndless reports whether the run is a tunnel, or an event stream that answers a safe
// method. An event stream that answers a POST is a response: it ends when the app has said
// all that it has to say.
func (r run) isEndless() bool {
	return r.flags&slotTunnel != 0 || r.flags&(slotEvents|slotSafe) == slotEvents|slotSafe
}

// isUnanswered reports whether no byte of the response has left, and the client may send the
// request again.
func (r run) isUnanswered() bool {
	return r.flags&(slotSafe|slotAnswered) == slotSafe
}

// begin notes that a run uses l. The flags may be slotKeyless and slotSafe.
func (s *slot) begin(kind Kind, shard shardmap.Shard, flags uint64, l *upstreamConn, node *string) {
	s.conn.Store(l)
	s.node.Store(node)
	number := s.word.Load()>>slotRun + 1
	s.word.Store(number<<slotRun | uint64(uint16(shard))<<slotShard | flags | uint64(kind))
}

// mark adds flags to the run; false means that it has been cut.
func (s *slot) mark(flags uint64) bool {
	for {
		w := s.word.Load()
		if decode(w).cause != causeNone {
			return false
		}
		if s.word.CompareAndSwap(w, w|flags) {
			return true
		}
	}
}

// finish ends the run and returns what it was cut for, if it was. Uncut, the
// link belongs to the caller alone from here on.
func (s *slot) finish() cause {
	for {
		w := s.word.Load()
		if s.word.CompareAndSwap(w, w>>slotRun<<slotRun) {
			return decode(w).cause
		}
	}
}

// load returns the present run.
func (s *slot) load() run { return decode(s.word.Load()) }

// cut cuts the present run if match says so, and returns the connections that
// the caller then has to close: closing may take its time, and is not done under
// the registry's lock. Once an answer has begun, the client's is one of them.
func (s *slot) cut(c cause, match func(r run, node string) bool, closes []*h1.Conn) ([]*h1.Conn, bool) {
	for {
		w := s.word.Load()
		r := decode(w)
		link, node := s.conn.Load(), s.node.Load()
		if r.kind == 0 || r.cause != causeNone {
			return closes, false
		}
		name := ""
		if node != nil {
			name = *node
		}
		if !match(r, name) {
			return closes, false
		}
		if !s.word.CompareAndSwap(w, w|uint64(c)<<slotCause) {
			continue
		}
		if l := s.webSocket.Load(); l != nil && r.flags&slotSocket != 0 {
			return l.cancel(c, closes), true
		}
		if ws := s.tunnel.Load(); ws != nil && r.flags&slotTunnel != 0 && (c == causeMoved || c == causeDrain || c == causeLeaving) {
			// A WebSocket whose shard moves closes its connections itself, within a
			// moment, having said why.
			ws.end(c)
			return closes, true
		}
		closes = append(closes, link.Conn)
		// What an event stream has passed on is whole once it is over, and the client
		// may take its time to read it.
		if r.flags&slotEvents != 0 && s.events.end(r.number) || r.flags&slotKept != 0 {
			return closes, true // and who keeps a stream gets its events over another run
		}
		if r.flags&slotAnswered != 0 {
			closes = append(closes, s.client)
		}
		return closes, true
	}
}

// giveBack ends a run in which nothing was sent.
func (s *slot) giveBack(l *upstreamConn) {
	if s.finish() != causeNone {
		l.pool.discard(l)
		return
	}
	l.SetWakeup(nil) // a loop had the run heard of
	l.pool.put(l)
}

// release lowers the in-flight count of the shard that the request was admitted
// for. A second call does nothing.
func (c *client) release() {
	if lower := c.admitted; lower != nil {
		c.admitted = nil
		lower()
	}
}

// begin begins a run, unless the connection is being closed.
func (c *client) begin(kind Kind, l *upstreamConn, node *string) bool {
	flags := uint64(0)
	if c.x.keyless {
		flags = slotKeyless
	}
	if c.x.safe {
		flags |= slotSafe
	}
	c.slot.begin(kind, c.x.shard, flags, l, node)
	return !c.down.Load()
}
