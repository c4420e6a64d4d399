package proxy

import (
	"sync/atomic"

	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// slot contains what a connection runs at the moment. The goroutine of the connection begins and
// finishes runs. Any goroutine may cancel the present run.
//
// Both change one atomic word by compare-and-swap. So a run is either finished, and its upstream
// connection can be reused, or cancelled, and the goroutine that has cancelled it closes the
// connection. It is never both.
//
//	idle ──begin──► running ──mark──► answered ──finish──► idle
//	                   └───────cut───────┴───► cut ──finish──┘
//
// A run begins before the node admits it and before the routing table is checked for the last
// time. Therefore a goroutine that changes one of these, and cancels runs after that, finds every
// run.
type slot struct {
	// word: run number (32 bits), shard (16), slotSafe (1), cause (7), flags (8).
	word atomic.Uint64
	// conn is the upstream connection of the run. It is stored before word: a goroutine that reads
	// word, then conn, and then swaps the same word has the connection of that run.
	conn atomic.Pointer[upstreamConn]
	// node is the owner of a remote run. It is stored as conn.
	node atomic.Pointer[string]
	// tunnel is the WebSocket of a plain tunnel; nil means none.
	tunnel atomic.Pointer[webSocketTunnel]
	// webSocketTunnel is the relay of a resumable WebSocket, while the run has slotWebSocket.
	webSocket atomic.Pointer[webSocketRelay]
	// events is the event stream, while the run has slotEvents.
	events eventRelay
	// client is the connection on which the request arrived.
	client *h1.Conn
}

const (
	slotKind      = 0x03    // a Kind; zero is idle
	slotAnswered  = 0x04    // bytes of the response are sent to the client
	slotTunnel    = 0x08    // upgraded connection
	slotKeyless   = 0x10    // no shard: the key sources found no key, and on-missing-key is local
	slotEvents    = 0x20    // the response is an event stream
	slotResumable = 0x40    // the connection of the client survives the run
	slotWebSocket = 0x80    // a WebSocket that survives the run
	slotCause     = 8       // shift
	slotSafe      = 1 << 15 // the method is GET, HEAD or OPTIONS
	slotShard     = 16      // shift
	slotRun       = 32      // shift
)

// run is the decoded content of a slot.
type run struct {
	number uint32
	kind   route.Kind // zero: idle
	shard  shardmap.Shard
	flags  uint64
	cause  cause
}

// decode decodes the word of a slot.
func decode(word uint64) run {
	return run{
		number: uint32(word >> slotRun),
		kind:   route.Kind(word & slotKind),
		shard:  shardmap.Shard(uint16(word >> slotShard)),
		flags:  word & (0xff | slotSafe),
		cause:  cause(uint8(word>>slotCause) & 0x7f),
	}
}

// isEndless reports whether the run is a tunnel, or an event stream in response to a safe method.
// An event stream in response to a POST ends when the app has sent everything.
func (r run) isEndless() bool {
	return r.flags&slotTunnel != 0 || r.flags&(slotEvents|slotSafe) == slotEvents|slotSafe
}

// isUnanswered reports whether no byte of the response was sent, and the client may repeat the
// request.
func (r run) isUnanswered() bool {
	return r.flags&(slotSafe|slotAnswered) == slotSafe
}

// begin begins a run over l. flags may contain slotKeyless and slotSafe.
func (s *slot) begin(kind route.Kind, shard shardmap.Shard, flags uint64, l *upstreamConn, node *string) {
	s.conn.Store(l)
	s.node.Store(node)
	number := s.word.Load()>>slotRun + 1
	s.word.Store(number<<slotRun | uint64(uint16(shard))<<slotShard | flags | uint64(kind))
}

// mark adds flags to the run. It reports false if the run has been cancelled.
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

// finish ends the run and returns the cause if the run was cancelled. Otherwise the upstream
// connection belongs to the caller.
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

// cancel cancels the present run if match returns true. It appends the connections that the caller
// must close, because closing may take time and must not happen under the lock of the registry. If
// a response has begun, the connection of the client is one of them.
func (s *slot) cancel(c cause, match func(r run, node string) bool, closes []*h1.Conn) ([]*h1.Conn, bool) {
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
		if l := s.webSocket.Load(); l != nil && r.flags&slotWebSocket != 0 {
			return l.cancel(c, closes), true
		}
		if ws := s.tunnel.Load(); ws != nil && r.flags&slotTunnel != 0 && (c == causeShardMoved || c == causeDrainTimeout || c == causeLeaving) {
			// A WebSocket whose shard moves sends a close frame with the reason, and then closes
			// its connections within a moment.
			ws.requestClose(c)
			return closes, true
		}
		closes = append(closes, link.Conn)
		// The part of an event stream that was passed on ends between two events. The client may
		// read it at its own pace.
		if r.flags&slotEvents != 0 && s.events.requestEnd(r.number) || r.flags&slotResumable != 0 {
			return closes, true // the client receives further events in another run
		}
		if r.flags&slotAnswered != 0 {
			closes = append(closes, s.client)
		}
		return closes, true
	}
}

// giveBack ends a run in which nothing was sent, and returns its upstream connection to the pool.
func (s *slot) giveBack(l *upstreamConn) {
	if s.finish() != causeNone {
		l.pool.discard(l)
		return
	}
	l.SetWakeup(nil) // an event loop may have set it
	l.pool.put(l)
}

// release lowers the in-flight count of the shard for which the request was admitted. A second
// call does nothing.
func (c *client) release() {
	if lower := c.admitted; lower != nil {
		c.admitted = nil
		lower()
	}
}

// begin begins a run. It reports false if the connection is being closed.
func (c *client) begin(kind route.Kind, l *upstreamConn, node *string) bool {
	flags := uint64(0)
	if c.x.Keyless {
		flags = slotKeyless
	}
	if c.x.safe {
		flags |= slotSafe
	}
	c.slot.begin(kind, c.x.shard, flags, l, node)
	return !c.closing.Load()
}
