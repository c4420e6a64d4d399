package inflight

import (
	"sync/atomic"

	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/eventrelay"
	"shardway/proxy/inbound"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
	"shardway/proxy/wstunnel"
	"shardway/shardmap"
)

// Slot contains the current run of a client's connection. A run is the execution of one attempt to
// serve a request over an upstream connection. The goroutine of the client's connection begins and
// finishes runs. Any goroutine may cancel the current run.
//
// Finish and Cancel change the same atomic word by compare-and-swap. The first of them decides the
// fate of the upstream connection: after Finish it can be reused, and after Cancel the cancelling
// goroutine closes it.
//
//	idle ──Begin──► running ──SetFlags──► response begun ──Finish──► idle
//	                   └──────Cancel────────────┴─► cancelled ──Finish──┘
//
// A run begins before the node admits it and before the last check of the routing table. A
// goroutine that first changes the admission or the table and then cancels runs therefore finds
// every run.
type Slot struct {
	// word: run number (32 bits), shard (16), Safe (1), cause (7), flags and kind (8).
	word atomic.Uint64
	// Conn is the upstream connection of the run. It is stored before word. A goroutine that reads
	// word and Conn, and then swaps the unchanged word, has therefore read the connection of that
	// run.
	Conn atomic.Pointer[connpool.Conn]
	// Node is the owner if the run is at another node; nil means a local run. Like Conn, it is stored
	// before word.
	Node atomic.Pointer[string]
	// Tunnel is the WebSocket of a plain tunnel; nil means none.
	Tunnel atomic.Pointer[wstunnel.Tunnel]
	// WebSocket is the relay of a resumable WebSocket, while the run has the flag WebSocket.
	WebSocket atomic.Pointer[wsrelay.Relay]
	// Events is the event stream, while the run has the flag Events.
	Events eventrelay.Relay
	// Client aborts the request at the front that accepted it.
	Client inbound.Aborter
}

// Flags of a Run.
const (
	ResponseBegun = 0x04    // bytes of the response have been sent to the client
	Tunnel        = 0x08    // upgraded connection
	Keyless       = 0x10    // the request has no shard: no key was found, and on-missing-key is local
	Events        = 0x20    // the response is an event stream
	Resumable     = 0x40    // the client's connection is kept when the run is cancelled
	WebSocket     = 0x80    // the run is a relay of a resumable WebSocket
	Safe          = 1 << 15 // the method is GET, HEAD or OPTIONS
)

// Other parts of Slot.word.
const (
	kindMask    = 0x03 // a route.Kind; zero means idle
	flagMask    = 0xff | Safe
	causeShift  = 8  // bit offset of the cause
	shardShift  = 16 // bit offset of the shard
	numberShift = 32 // bit offset of the run number
)

// Run is the decoded word of a Slot.
type Run struct {
	Number uint32     // increases from run to run of a connection
	Kind   route.Kind // zero means idle
	Shard  shardmap.Shard
	Flags  uint64      // ResponseBegun and others
	Cause  cause.Cause // cause.None means that the run was not cancelled
}

// decode decodes the word of a slot.
func decode(word uint64) Run {
	return Run{
		Number: uint32(word >> numberShift),
		Kind:   route.Kind(word & kindMask),
		Shard:  shardmap.Shard(uint16(word >> shardShift)),
		Flags:  word & flagMask,
		Cause:  cause.Cause(uint8(word>>causeShift) & 0x7f),
	}
}

// Has reports whether the run has at least one of the given flags.
func (r Run) Has(flags uint64) bool { return r.Flags&flags != 0 }

// IsCancelled reports whether a goroutine has cancelled the run.
func (r Run) IsCancelled() bool { return r.Cause != cause.None }

// IsEndless reports whether the run is a tunnel, or an event stream in response to a safe method.
// An event stream in response to a POST ends once the app has sent its result.
func (r Run) IsEndless() bool {
	return r.Has(Tunnel) || r.Has(Events) && r.Has(Safe)
}

// IsRepeatable reports whether the client may repeat the request because its method is safe and no
// byte of the response was sent.
func (r Run) IsRepeatable() bool {
	return r.Has(Safe) && !r.Has(ResponseBegun)
}

// Begin begins a run on the upstream connection conn. node is the owner of a run at another node, and
// nil for a local run. flags may contain Keyless and Safe.
func (s *Slot) Begin(kind route.Kind, shard shardmap.Shard, flags uint64, conn *connpool.Conn, node *string) {
	s.Conn.Store(conn)
	s.Node.Store(node)
	number := s.word.Load()>>numberShift + 1
	s.word.Store(number<<numberShift | uint64(uint16(shard))<<shardShift | flags | uint64(kind))
}

// SetFlags adds flags to the run. It returns false if the run was cancelled.
func (s *Slot) SetFlags(flags uint64) bool {
	for {
		word := s.word.Load()
		if decode(word).IsCancelled() {
			return false
		}
		if s.word.CompareAndSwap(word, word|flags) {
			return true
		}
	}
}

// Finish ends the run. If the run was cancelled, it returns the cause. Otherwise it returns
// cause.None, and the upstream connection belongs to the caller.
func (s *Slot) Finish() cause.Cause {
	for {
		word := s.word.Load()
		onlyNumber := word >> numberShift << numberShift
		if s.word.CompareAndSwap(word, onlyNumber) {
			return decode(word).Cause
		}
	}
}

// Load returns the current run.
func (s *Slot) Load() Run { return decode(s.word.Load()) }

// Cancel cancels the current run if match returns true for it. Connections that the caller must
// close are appended to toClose, which is returned. They include the client's connection if a
// response has begun that can only be truncated. Closing may take time and must not happen while
// Server.conns is locked. The second result reports whether it was.
func (s *Slot) Cancel(cancelCause cause.Cause, match func(current Run, node string) bool, toClose []inbound.Aborter) ([]inbound.Aborter, bool) {
	for {
		word := s.word.Load()
		current := decode(word)
		conn, nodeName := s.Conn.Load(), s.NodeName() // valid for the run only if word is unchanged when it is swapped
		if current.Kind == 0 || current.IsCancelled() {
			return toClose, false
		}
		if !match(current, nodeName) {
			return toClose, false
		}
		if s.word.CompareAndSwap(word, word|uint64(cancelCause)<<causeShift) {
			return s.endCancelled(current, conn, cancelCause, toClose), true
		}
	}
}

// NodeName returns the owner of the run, or "" for a local run.
func (s *Slot) NodeName() string {
	if node := s.Node.Load(); node != nil {
		return *node
	}
	return ""
}

// endCancelled ends what a just-cancelled run sends to the client and over its upstream connection
// conn. Connections that the caller must close are appended to toClose, which is returned.
func (s *Slot) endCancelled(cancelled Run, conn *connpool.Conn, cancelCause cause.Cause, toClose []inbound.Aborter) []inbound.Aborter {
	if relay := s.WebSocket.Load(); relay != nil && cancelled.Has(WebSocket) {
		return relay.Cancel(cancelCause, toClose) // the relay ends both of its connections itself
	}
	ownerChanging := cancelCause == cause.ShardMoved || cancelCause == cause.DrainTimeout || cancelCause == cause.Leaving
	if tunnel := s.Tunnel.Load(); tunnel != nil && cancelled.Has(Tunnel) && ownerChanging {
		// The tunnel sends a close frame with the reason, and then closes its connections.
		tunnel.StartClose(closeCodeOf(cancelCause))
		return toClose
	}
	toClose = append(toClose, conn.Conn)
	// If the forwarded part of an event stream ends between two events, the client's connection stays
	// open. The client reads the rest at its own speed.
	endsBetweenEvents := cancelled.Has(Events) && s.Events.RequestEnd(cancelled.Number)
	// A resumable stream is continued on another upstream connection, so the client stays connected.
	isResumable := cancelled.Has(Resumable)
	if endsBetweenEvents || isResumable {
		return toClose
	}
	if cancelled.Has(ResponseBegun) {
		toClose = append(toClose, s.Client)
	}
	return toClose
}

// ReturnToPool ends a run that has sent nothing, and returns its upstream connection to the pool.
// If the run was cancelled, it discards the connection, which the cancelling goroutine closes.
func (s *Slot) ReturnToPool(conn *connpool.Conn) {
	if s.Finish() != cause.None {
		conn.Pool.Discard(conn)
		return
	}
	conn.SetWakeup(nil) // an event loop may have set it
	conn.Pool.Put(conn)
}

// closeCodeOf returns the close code for both endpoints of a WebSocket that is not resumable.
func closeCodeOf(c cause.Cause) int {
	if c == cause.Leaving {
		return wsession.CloseNodeLeaving
	}
	return wsession.CloseShardMoved
}

// CloseAll aborts connections, so that no truncated message looks complete.
func CloseAll(conns []inbound.Aborter) {
	for _, conn := range conns {
		_ = conn.Abort() // its goroutine receives an error
	}
}
