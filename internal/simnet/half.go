package simnet

import (
	"time"
)

// window is how many unread bytes one direction of a stream holds.
const window = 256 << 10

// stream is a connected pair of ends.
type stream struct {
	a, b *conn
}

// half is one direction of a stream.
type half struct {
	from, to       *Host
	writer, reader *conn

	// segs is what is not read yet, in order; size their bytes.
	segs []segment
	size int
	// last is when the last one arrives: none overtakes.
	last time.Time
	// holding means that from some segment on they wait for the way to open.
	holding bool
	// hold tells the turns of holding apart, for the timer of each.
	hold int
	// ended means that the end was sent.
	ended bool
	// gone means that the reader closed; bytes go nowhere then. resetAt is
	// when the writer learns so, after his next write.
	gone    bool
	resetAt time.Time
}

// segment is bytes, or the end of a half.
type segment struct {
	at   time.Time
	held bool
	// own is when it would arrive if it waited for none before it, sent when it was
	// sent first.
	own, sent time.Time
	data      []byte
	// end is io.EOF or the reader's error; nil for bytes.
	end error
}

// arrived reports whether the reader has the segment.
func (s *segment) arrived(now time.Time) bool {
	return !s.held && !now.Before(s.at)
}

// send puts a segment on the way, or holds it if there is none.
func (h *half) send(n *Net, s segment) {
	if !h.holding && !n.sends(h) {
		h.startHolding(n)
	}
	if s.held = h.holding; !s.held {
		h.schedule(n, &s)
	}
	h.segs = append(h.segs, s)
	if !s.held && time.Until(s.own) < retransmit {
		h.repair(n, s.own)
	}
	h.size += len(s.data)
	if s.end != nil {
		h.ended = true
	}
	h.reader.wake.fire()
}

// sends reports whether what is written now leaves the host and gets through.
func (n *Net) sends(h *half) bool {
	return h.from.state != frozen && n.open(h.from.m, h.to.m)
}

func (h *half) schedule(n *Net, s *segment) {
	s.held, s.sent = false, time.Now()
	s.own = s.sent.Add(n.link(h.from.m, h.to.m).segment(n.rng))
	s.at = later(s.own, h.last)
	h.last = s.at
}

// again draws anew what the way does to segments that are still on it, from their next
// sending on: it may have become better.
func (h *half) again(n *Net, now time.Time) {
	var last time.Time
	for i := range h.segs {
		s := &h.segs[i]
		if s.own.After(now) {
			next, wait := s.sent, retransmit
			for ; next.Before(now); wait *= 2 {
				next = next.Add(wait)
			}
			if own := next.Add(n.link(h.from.m, h.to.m).segment(n.rng)); own.Before(s.own) {
				s.own = own
			}
		}
		s.at = later(s.own, last)
		last = s.at
	}
	h.last = last
	h.reader.wake.fire()
}

// repair repeats the segments that are missing when a later one arrives: its
// acknowledgement tells so (SACK, RFC 8985), long before their own timers do.
func (h *half) repair(n *Net, arrived time.Time) {
	if !n.open(h.to.m, h.from.m) {
		return
	}
	there, back := n.link(h.from.m, h.to.m), n.link(h.to.m, h.from.m)
	told := arrived.Add(back.delay(n.rng))
	var last time.Time
	for i := range h.segs {
		s := &h.segs[i]
		if again := told.Add(there.delay(n.rng)); s.own.After(again) && !there.lost(n.rng) {
			s.own = again
		}
		s.at = later(s.own, last)
		last = s.at
	}
	h.last = last
}

// later returns the later time.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// startHolding begins a time in which nothing gets through.
func (h *half) startHolding(n *Net) {
	h.holding = true
	h.hold++
	if n.o.UserTimeout <= 0 {
		return
	}
	turn := h.hold
	time.AfterFunc(n.o.UserTimeout, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		// A frozen process keeps its connections: its kernel is alive.
		if h.holding && h.hold == turn && h.from.state != frozen {
			h.writer.fail(errSilence)
		}
	})
}

// review follows a change of hosts or ways: what was on its way over a cut
// is held, what was held goes on where it can.
func (h *half) review(n *Net) {
	now := time.Now()
	switch open := n.open(h.from.m, h.to.m); {
	case !open && !h.holding:
		for i := range h.segs {
			if h.segs[i].at.After(now) {
				if !h.holding {
					h.startHolding(n)
				}
				h.segs[i].held = true
			}
		}
	case open && h.holding && n.sends(h):
		h.holding = false
		for i := range h.segs {
			if h.segs[i].held {
				h.schedule(n, &h.segs[i])
			}
		}
		h.reader.wake.fire()
	case open && !h.holding:
		h.again(n, now)
	}
}

// discard drops what the reader will never read.
func (h *half) discard() {
	h.gone = true
	h.segs, h.size = nil, 0
	h.writer.wake.fire()
}

// drop drops what has not arrived, the end included.
func (h *half) drop() {
	now := time.Now()
	for i := range h.segs {
		if h.segs[i].arrived(now) {
			continue
		}
		for _, s := range h.segs[i:] {
			h.size -= len(s.data)
		}
		h.segs = h.segs[:i]
		return
	}
}
