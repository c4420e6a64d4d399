package simnet

import (
	"time"
)

// window is the number of unread bytes that one direction of a stream can hold.
const window = 256 << 10

// stream is a connected pair of ends.
type stream struct {
	a, b *conn
}

// half is one direction of a stream.
type half struct {
	from, to       *Host
	writer, reader *conn

	// segs are the unread segments, in order. size is the sum of their lengths.
	segs []segment
	size int
	// last is the arrival time of the last segment. No segment overtakes another.
	last time.Time
	// holding reports that from some segment on all wait until the route is open.
	holding bool
	// hold numbers the periods of holding, for the timer of each.
	hold int
	// ended reports that the end was sent.
	ended bool
	// gone reports that the reader has closed, so data is discarded. resetAt is when the
	// writer learns of that, after its next write.
	gone    bool
	resetAt time.Time
}

// segment is data, or the end of a half.
type segment struct {
	at   time.Time
	held bool
	// own is the arrival time if the segment did not wait for earlier ones. sent is the
	// time of its first transmission.
	own, sent time.Time
	data      []byte
	// end is io.EOF or the error for the reader, nil for data.
	end error
}

// arrived reports whether the segment has reached the reader.
func (s *segment) arrived(now time.Time) bool {
	return !s.held && !now.Before(s.at)
}

// send transmits a segment, or holds it if there is no route.
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

// sends reports whether data written now leaves the host and arrives.
func (n *Net) sends(h *half) bool {
	return h.from.state != frozen && n.open(h.from.m, h.to.m)
}

func (h *half) schedule(n *Net, s *segment) {
	s.held, s.sent = false, time.Now()
	s.own = s.sent.Add(n.link(h.from.m, h.to.m).segment(n.rng))
	s.at = later(s.own, h.last)
	h.last = s.at
}

// redraw draws new delays and losses for segments in transit, from their next transmission
// on: the route may have improved.
func (h *half) redraw(n *Net, now time.Time) {
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

// repair retransmits missing segments when a later one arrives: its acknowledgement reports
// the gap (SACK, RFC 8985) long before their own timers expire.
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

// startHolding begins a period in which nothing arrives.
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

// review applies a change of hosts or routes: data in transit over a cut is held, and held
// data continues where it can.
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
		h.redraw(n, now)
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
