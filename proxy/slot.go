package proxy

import (
	"sync/atomic"

	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// slot contains the current run of a connection. A run is the execution of one attempt. The
// goroutine of the connection begins and finishes runs. Any goroutine may cancel the current run.
//
// Both operations change one atomic word by compare-and-swap. So a run is either finished, and its
// upstream connection can be reused, or it is cancelled, and the goroutine that has cancelled it
// closes the connection.
//
//	idle ──begin──► running ──setFlags──► response begun ──finish──► idle
//	                   └──────cancel────────────┴─► cancelled ──finish──┘
//
// A run begins before the node admits it and before the last check of the routing table. Therefore
// a goroutine that first changes the admission or the table, and then cancels runs, finds every
// run.
type slot struct {
	// word: run number (32 bits), shard (16), slotSafe (1), cause (7), flags (8).
	word atomic.Uint64
	// conn is the upstream connection of the run. It is stored before word. A goroutine that reads
	// word, then conn, and then swaps the same word has therefore read the connection of that run.
	conn atomic.Pointer[connpool.Conn]
	// node is the owner for a run at another node. It is stored in the same order as conn.
	node atomic.Pointer[string]
	// tunnel is the WebSocket of a plain tunnel; nil means none.
	tunnel atomic.Pointer[webSocketTunnel]
	// webSocket is the relay of a resumable WebSocket, while the run has the flag slotWebSocket.
	webSocket atomic.Pointer[webSocketRelay]
	// events is the event stream, while the run has the flag slotEvents.
	events eventRelay
	// client is the connection on which the request arrived.
	client *h1.Conn
}

// Parts of the word of a slot.
const (
	slotKind          = 0x03    // a route.Kind; zero means idle
	slotResponseBegun = 0x04    // bytes of the response have been sent to the client
	slotTunnel        = 0x08    // upgraded connection
	slotKeyless       = 0x10    // the request has no shard: no key was found, and on-missing-key is local
	slotEvents        = 0x20    // the response is an event stream
	slotResumable     = 0x40    // the client's connection is kept when the run is cancelled
	slotWebSocket     = 0x80    // the run is a relay of a resumable WebSocket
	slotCause         = 8       // bit offset of the cause
	slotSafe          = 1 << 15 // the method is GET, HEAD or OPTIONS
	slotShard         = 16      // bit offset of the shard
	slotRun           = 32      // bit offset of the run number
)

// run is the decoded word of a slot.
type run struct {
	number uint32
	kind   route.Kind // zero means idle
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

// isCancelled reports whether a goroutine has cancelled the run.
func (r run) isCancelled() bool { return r.cause != causeNone }

// isEndless reports whether the run is a tunnel, or an event stream that responds to a safe method.
// An event stream that responds to a POST ends when the app has sent its result.
func (r run) isEndless() bool {
	return r.flags&slotTunnel != 0 || r.flags&(slotEvents|slotSafe) == slotEvents|slotSafe
}

// isRepeatable reports whether the client may repeat the request because its method is safe and no
// byte of the response was sent.
func (r run) isRepeatable() bool {
	return r.flags&(slotSafe|slotResponseBegun) == slotSafe
}

// begin begins a run on the upstream connection conn. node is the owner of a run at another node, and
// nil for a local run. flags may contain slotKeyless and slotSafe.
func (s *slot) begin(kind route.Kind, shard shardmap.Shard, flags uint64, conn *connpool.Conn, node *string) {
	s.conn.Store(conn)
	s.node.Store(node)
	number := s.word.Load()>>slotRun + 1
	s.word.Store(number<<slotRun | uint64(uint16(shard))<<slotShard | flags | uint64(kind))
}

// setFlags adds flags to the run. It returns false if the run was cancelled.
func (s *slot) setFlags(flags uint64) bool {
	for {
		word := s.word.Load()
		if decode(word).isCancelled() {
			return false
		}
		if s.word.CompareAndSwap(word, word|flags) {
			return true
		}
	}
}

// finish ends the run. If the run was cancelled, it returns the cause. Otherwise it returns
// causeNone, and the upstream connection belongs to the caller.
func (s *slot) finish() cause {
	for {
		word := s.word.Load()
		onlyNumber := word >> slotRun << slotRun
		if s.word.CompareAndSwap(word, onlyNumber) {
			return decode(word).cause
		}
	}
}

// load returns the current run.
func (s *slot) load() run { return decode(s.word.Load()) }

// cancel cancels the current run if match returns true for it. It appends the connections that the
// caller must close; closing may take time and must not happen while the registry is locked. If a
// response has begun, they include the client's connection. The second result reports whether the
// run was cancelled.
func (s *slot) cancel(cancelCause cause, match func(current run, node string) bool, closes []*h1.Conn) ([]*h1.Conn, bool) {
	for {
		word := s.word.Load()
		current := decode(word)
		conn, nodeName := s.conn.Load(), s.nodeName() // valid for the run only if word is unchanged when it is swapped
		if current.kind == 0 || current.isCancelled() {
			return closes, false
		}
		if !match(current, nodeName) {
			return closes, false
		}
		if s.word.CompareAndSwap(word, word|uint64(cancelCause)<<slotCause) {
			return s.endCancelled(current, conn, cancelCause, closes), true
		}
	}
}

// nodeName returns the owner of the run, or "" for a local run.
func (s *slot) nodeName() string {
	if node := s.node.Load(); node != nil {
		return *node
	}
	return ""
}

// endCancelled ends the messages of a run that was just cancelled. conn is its upstream connection.
// It appends the connections that the caller must close to closes, and returns closes.
func (s *slot) endCancelled(cancelled run, conn *connpool.Conn, cancelCause cause, closes []*h1.Conn) []*h1.Conn {
	if relay := s.webSocket.Load(); relay != nil && cancelled.flags&slotWebSocket != 0 {
		return relay.cancel(cancelCause, closes)
	}
	shardIsLeaving := cancelCause == causeShardMoved || cancelCause == causeDrainTimeout || cancelCause == causeLeaving
	if tunnel := s.tunnel.Load(); tunnel != nil && cancelled.flags&slotTunnel != 0 && shardIsLeaving {
		// The tunnel sends a close frame with the reason, and then closes its connections.
		tunnel.startClose(cancelCause)
		return closes
	}
	closes = append(closes, conn.Conn)
	// The forwarded part of an event stream ends between two events, so the client's connection can
	// stay open. The client may read the rest at its own speed.
	endsBetweenEvents := cancelled.flags&slotEvents != 0 && s.events.requestEnd(cancelled.number)
	// Another run sends further events of a resumable stream to the client.
	isResumable := cancelled.flags&slotResumable != 0
	if endsBetweenEvents || isResumable {
		return closes
	}
	if cancelled.flags&slotResponseBegun != 0 {
		closes = append(closes, s.client)
	}
	return closes
}

// returnToPool ends a run before anything was sent, and returns its upstream connection to the pool.
// If the run was cancelled, it discards the connection, because the cancelling goroutine closes it.
func (s *slot) returnToPool(conn *connpool.Conn) {
	if s.finish() != causeNone {
		conn.Pool.Discard(conn)
		return
	}
	conn.SetWakeup(nil) // an event loop may have set it
	conn.Pool.Put(conn)
}
