package proxy

import (
	"net"
	"strconv"
	"sync/atomic"

	"shardway/shardmap"
)

// cause says why a running exchange was cut from outside its goroutine.
type cause uint8

const (
	causeNone     cause = iota
	causeDrain          // Cut: its shard moves and drain_timeout is over
	causeLease          // CutUpstream: the lease is long over
	causeAbandon        // Abandon: the owner lost the shard without a word
	causeGone           // the client left
	causeTimeout        // the app let FirstByteTimeout pass
	causeMoved          // an upgraded connection outlived its shard by StreamGrace
	causeShutdown       // Shutdown ran out of time
	causes        = int(causeShutdown) + 1
)

// String returns the word that stands in metrics.
func (c cause) String() string {
	switch c {
	case causeNone:
		return "none"
	case causeDrain:
		return "draining"
	case causeLease:
		return "lease"
	case causeAbandon:
		return "abandoned"
	case causeGone:
		return "client-gone"
	case causeTimeout:
		return "timeout"
	case causeMoved:
		return "moved"
	case causeShutdown:
		return "shutdown"
	}
	return "cause(" + strconv.Itoa(int(c)) + ")"
}

// slot is where others find what a connection runs at the moment. Its goroutine
// begins and finishes runs; anyone may cut one. All of it hangs on one word that
// both sides change by compare-and-swap, so a run is either finished, and its
// upstream connection may be used again, or cut, and the one who cut it closes
// that connection: never both.
//
//	idle ──begin──► running ──answer──► answered ──finish──► idle
//	                   └────────cut────────┴───► cut ──finish──┘
type slot struct {
	// word: run number (32 bits), shard (16), cause (8), flags (8).
	word atomic.Uint64
	// conn is what the run goes over; stored before word, so that whoever reads
	// a word, then conn, and then swaps that same word, has that run's.
	conn atomic.Pointer[net.Conn]
	// node is the owner a remote run went to, stored like conn.
	node atomic.Pointer[string]
	// client is the connection the request came by.
	client net.Conn
}

const (
	slotKind     = 0x03 // a Kind; zero is idle
	slotAnswered = 0x04 // the head of the answer is going to the client
	slotTunnel   = 0x08 // upgraded
	slotKeyless  = 0x10 // no shard: key sources found nothing, on-missing local
	slotPeer     = 0x20 // came from another node
	slotCause    = 8    // shift
	slotShard    = 16   // shift
	slotRun      = 32   // shift
)

// run describes what a slot holds.
type run struct {
	kind  Kind
	shard shardmap.Shard
	flags uint64
	cause cause
}

// decode reads a slot's word; kind is zero for an idle slot.
func decode(word uint64) run {
	return run{
		kind:  Kind(word & slotKind),
		shard: shardmap.Shard(uint16(word >> slotShard)),
		flags: word & 0xff,
		cause: cause(uint8(word >> slotCause)),
	}
}

// begin says that a run goes over conn. Flags are slotKeyless and slotPeer.
func (s *slot) begin(kind Kind, shard shardmap.Shard, flags uint64, conn *net.Conn, node *string) {
	s.conn.Store(conn)
	s.node.Store(node)
	number := s.word.Load()>>slotRun + 1
	s.word.Store(number<<slotRun | uint64(uint16(shard))<<slotShard | flags | uint64(kind))
}

// mark adds a flag to the run; false means that it has been cut.
func (s *slot) mark(flag uint64) bool {
	for {
		w := s.word.Load()
		if decode(w).cause != causeNone {
			return false
		}
		if s.word.CompareAndSwap(w, w|flag) {
			return true
		}
	}
}

// finish ends the run and returns what it was cut for, if it was. Uncut, the
// upstream connection belongs to the caller alone from here on.
func (s *slot) finish() cause {
	for {
		w := s.word.Load()
		if s.word.CompareAndSwap(w, w>>slotRun<<slotRun) {
			return decode(w).cause
		}
	}
}

// cutBy returns what the present run was cut for.
func (s *slot) cutBy() cause { return decode(s.word.Load()).cause }

// cut cuts the present run if match says so, and returns the connections that
// the caller then has to close: closing may take its time, and is not done under
// the registry's lock. Once an answer has begun, the client's is one of them.
func (s *slot) cut(c cause, match func(r run, node string) bool, closes []net.Conn) ([]net.Conn, bool) {
	for {
		w := s.word.Load()
		r := decode(w)
		conn, node := s.conn.Load(), s.node.Load()
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
		closes = append(closes, *conn)
		if r.flags&slotAnswered != 0 {
			closes = append(closes, s.client)
		}
		return closes, true
	}
}
