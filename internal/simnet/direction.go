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

// direction is one direction of a stream.
type direction struct {
	from, to       *Host
	writer, reader *conn

	// segments are the unread segments, in order. unreadBytes is the sum of their lengths.
	segments    []segment
	unreadBytes int
	// lastArrival is the arrival time of the last segment. No segment overtakes another.
	lastArrival time.Time
	// holding reports that from some segment on all wait until the route is open.
	holding bool
	// holdPeriod numbers the periods of holding, for the timer of each.
	holdPeriod int
	// endSent reports that the end was sent.
	endSent bool
	// readerClosed reports that the reader has closed, so data is discarded. resetAt is when the
	// writer learns of that, after its next write.
	readerClosed bool
	resetAt      time.Time
}

// segment is data, or the end of a direction.
type segment struct {
	arrival time.Time
	held    bool
	// ownArrival is the arrival time if the segment did not wait for earlier ones. sentAt is the
	// time of its first transmission.
	ownArrival, sentAt time.Time
	data               []byte
	// endErr is io.EOF or the error for the reader, nil for data.
	endErr error
}

// hasArrived reports whether the segment has reached the reader.
func (s *segment) hasArrived(now time.Time) bool {
	return !s.held && !now.Before(s.arrival)
}

// send transmits a segment, or holds it if there is no route.
func (h *direction) send(n *Net, s segment) {
	if !h.holding && !n.canSend(h) {
		h.startHolding(n)
	}
	if s.held = h.holding; !s.held {
		h.scheduleArrival(n, &s)
	}
	h.segments = append(h.segments, s)
	if !s.held && time.Until(s.ownArrival) < retransmit {
		h.retransmitLost(n, s.ownArrival)
	}
	h.unreadBytes += len(s.data)
	if s.endErr != nil {
		h.endSent = true
	}
	h.reader.wake.notifyAll()
}

// canSend reports whether data written now leaves the host and arrives.
func (n *Net) canSend(h *direction) bool {
	return h.from.state != frozen && n.isRouteOpen(h.from.machine, h.to.machine)
}

func (h *direction) scheduleArrival(n *Net, s *segment) {
	s.held, s.sentAt = false, time.Now()
	s.ownArrival = s.sentAt.Add(n.link(h.from.machine, h.to.machine).segmentDelay(n.rng))
	s.arrival = later(s.ownArrival, h.lastArrival)
	h.lastArrival = s.arrival
}

// redrawDelays draws new delays and losses for segments in transit, from their next transmission
// on: the route may have improved.
func (h *direction) redrawDelays(n *Net, now time.Time) {
	var last time.Time
	for i := range h.segments {
		s := &h.segments[i]
		if s.ownArrival.After(now) {
			next, wait := s.sentAt, retransmit
			for ; next.Before(now); wait *= 2 {
				next = next.Add(wait)
			}
			if own := next.Add(n.link(h.from.machine, h.to.machine).segmentDelay(n.rng)); own.Before(s.ownArrival) {
				s.ownArrival = own
			}
		}
		s.arrival = later(s.ownArrival, last)
		last = s.arrival
	}
	h.lastArrival = last
	h.reader.wake.notifyAll()
}

// retransmitLost retransmits missing segments when a later one arrives: its acknowledgement reports
// the gap (SACK, RFC 8985) long before their own timers expire.
func (h *direction) retransmitLost(n *Net, arrived time.Time) {
	if !n.isRouteOpen(h.to.machine, h.from.machine) {
		return
	}
	there, back := n.link(h.from.machine, h.to.machine), n.link(h.to.machine, h.from.machine)
	reportedAt := arrived.Add(back.packetDelay(n.rng))
	var last time.Time
	for i := range h.segments {
		s := &h.segments[i]
		if retransmitted := reportedAt.Add(there.packetDelay(n.rng)); s.ownArrival.After(retransmitted) && !there.isPacketLost(n.rng) {
			s.ownArrival = retransmitted
		}
		s.arrival = later(s.ownArrival, last)
		last = s.arrival
	}
	h.lastArrival = last
}

// later returns the later time.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// startHolding begins a period in which nothing arrives.
func (h *direction) startHolding(n *Net) {
	h.holding = true
	h.holdPeriod++
	if n.config.UserTimeout <= 0 {
		return
	}
	period := h.holdPeriod
	time.AfterFunc(n.config.UserTimeout, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		// A frozen process keeps its connections: its kernel is alive.
		if h.holding && h.holdPeriod == period && h.from.state != frozen {
			h.writer.breakWithError(errUserTimeout)
		}
	})
}

// applyChanges applies a change of hosts or routes: data in transit over a cut is held, and held
// data continues where it can.
func (h *direction) applyChanges(n *Net) {
	now := time.Now()
	switch open := n.isRouteOpen(h.from.machine, h.to.machine); {
	case !open && !h.holding:
		for i := range h.segments {
			if h.segments[i].arrival.After(now) {
				if !h.holding {
					h.startHolding(n)
				}
				h.segments[i].held = true
			}
		}
	case open && h.holding && n.canSend(h):
		h.holding = false
		for i := range h.segments {
			if h.segments[i].held {
				h.scheduleArrival(n, &h.segments[i])
			}
		}
		h.reader.wake.notifyAll()
	case open && !h.holding:
		h.redrawDelays(n, now)
	}
}

// discardUnread drops what the reader will never read.
func (h *direction) discardUnread() {
	h.readerClosed = true
	h.segments, h.unreadBytes = nil, 0
	h.writer.wake.notifyAll()
}

// dropInTransit drops what has not arrived, the end included.
func (h *direction) dropInTransit() {
	now := time.Now()
	for i := range h.segments {
		if h.segments[i].hasArrived(now) {
			continue
		}
		for _, s := range h.segments[i:] {
			h.unreadBytes -= len(s.data)
		}
		h.segments = h.segments[:i]
		return
	}
}
