package simnet

import (
	"time"
)

// window is the number of unread bytes that one direction of a stream can hold.
const window = 256 << 10

// stream is a connected pair of ends.
type stream struct {
	dialerEnd, listenerEnd *conn
}

// direction is one direction of a stream.
type direction struct {
	from, to       *Host // sender and receiver
	writer, reader *conn // ends of the stream at the sender and the receiver

	// segments are the unread segments, in order. unreadBytes is the sum of their lengths.
	segments    []segment
	unreadBytes int
	// lastArrival is the arrival time of the last segment. No segment overtakes another.
	lastArrival time.Time

	// holding is set while the route is closed. From some segment on, all segments are then held.
	holding bool
	// holdPeriod is the number of periods of holding so far. The timer of one period compares it, to
	// detect that its period has ended.
	holdPeriod int

	endSent      bool // the writer has sent the end of the direction
	readerClosed bool // the reader has closed, so data is discarded
	// resetAt is when the writer learns that the reader has closed. Zero means that the writer has sent
	// nothing since then.
	resetAt time.Time
}

// segment is data, or the end of a direction.
type segment struct {
	data []byte
	// endErr is nil for data. For the end of the direction, it is io.EOF or the error for the reader.
	endErr error

	// held is set if the segment is not sent until the route is open. The times are then not set.
	held   bool
	sentAt time.Time // first transmission
	// ownArrival is the arrival time if the segment did not wait for earlier ones. arrival is the time at
	// which the reader gets it.
	ownArrival, arrival time.Time
}

// hasArrived reports whether the segment has reached the reader.
func (s *segment) hasArrived(now time.Time) bool {
	return !s.held && !now.Before(s.arrival)
}

// send transmits a segment, or holds it if there is no route.
func (d *direction) send(network *Net, seg segment) {
	if !d.holding && !network.canSend(d) {
		d.startHolding(network)
	}
	seg.held = d.holding
	if !seg.held {
		d.scheduleArrival(network, &seg)
	}
	d.segments = append(d.segments, seg)
	arrivesBeforeTimeout := time.Until(seg.ownArrival) < retransmit
	if !seg.held && arrivesBeforeTimeout {
		d.retransmitLost(network, seg.ownArrival)
	}
	d.unreadBytes += len(seg.data)
	if seg.endErr != nil {
		d.endSent = true
	}
	d.reader.wake.notifyAll()
}

// canSend reports whether data that is written now leaves the host and arrives. n.mu must be held.
func (n *Net) canSend(d *direction) bool {
	return d.from.state != frozen && n.isRouteOpen(d.from.machine, d.to.machine)
}

// scheduleArrival draws the arrival time of a segment that is sent now.
func (d *direction) scheduleArrival(network *Net, seg *segment) {
	seg.held, seg.sentAt = false, time.Now()
	seg.ownArrival = seg.sentAt.Add(network.link(d.from.machine, d.to.machine).segmentDelay(network.rng))
	seg.arrival = later(seg.ownArrival, d.lastArrival)
	d.lastArrival = seg.arrival
}

// redrawDelays draws new delays and losses for segments in transit, from their next transmission
// on: because the route may have improved.
func (d *direction) redrawDelays(network *Net, now time.Time) {
	link := network.link(d.from.machine, d.to.machine)
	for i := range d.segments {
		seg := &d.segments[i]
		if !seg.ownArrival.After(now) {
			continue
		}
		arrival := seg.nextTransmission(now).Add(link.segmentDelay(network.rng))
		seg.ownArrival = earlier(seg.ownArrival, arrival)
	}
	d.keepOrder()
	d.reader.wake.notifyAll()
}

// nextTransmission returns the time of the first transmission at now or later. The pause between two
// transmissions doubles each time.
func (s *segment) nextTransmission(now time.Time) time.Time {
	next := s.sentAt
	for pause := retransmit; next.Before(now); pause *= 2 {
		next = next.Add(pause)
	}
	return next
}

// retransmitLost retransmits missing segments when a later one arrives: its acknowledgement reports
// the gap (SACK, RFC 8985) long before their own timers expire.
func (d *direction) retransmitLost(network *Net, arrived time.Time) {
	if !network.isRouteOpen(d.to.machine, d.from.machine) {
		return
	}
	forward, reverse := network.link(d.from.machine, d.to.machine), network.link(d.to.machine, d.from.machine)
	reportedAt := arrived.Add(reverse.packetDelay(network.rng))
	for i := range d.segments {
		seg := &d.segments[i]
		retransmitted := reportedAt.Add(forward.packetDelay(network.rng))
		isMissing := seg.ownArrival.After(retransmitted)
		if isMissing && !forward.isPacketLost(network.rng) {
			seg.ownArrival = retransmitted
		}
	}
	d.keepOrder()
}

// keepOrder sets the arrival of each segment from its own arrival, so that no segment overtakes another.
func (d *direction) keepOrder() {
	var latest time.Time
	for i := range d.segments {
		seg := &d.segments[i]
		seg.arrival = later(seg.ownArrival, latest)
		latest = seg.arrival
	}
	d.lastArrival = latest
}

// later returns the later time.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// startHolding begins a period in which nothing arrives.
func (d *direction) startHolding(network *Net) {
	d.holding = true
	d.holdPeriod++
	if network.config.UserTimeout <= 0 {
		return
	}
	period := d.holdPeriod
	time.AfterFunc(network.config.UserTimeout, func() {
		network.mu.Lock()
		defer network.mu.Unlock()
		// A frozen process keeps its connections: its kernel is alive.
		if d.holding && d.holdPeriod == period && d.from.state != frozen {
			d.writer.breakWithError(errUserTimeout)
		}
	})
}

// applyChanges applies a change of hosts or routes: it holds segments in transit if the route is cut,
// and sends held segments if the route is open again.
func (d *direction) applyChanges(network *Net) {
	isOpen := network.isRouteOpen(d.from.machine, d.to.machine)
	switch {
	case !isOpen && !d.holding:
		d.holdInTransit(network)
	case isOpen && d.holding && network.canSend(d):
		d.sendHeld(network)
	case isOpen && !d.holding:
		d.redrawDelays(network, time.Now())
	}
}

// holdInTransit holds the segments that have not arrived.
func (d *direction) holdInTransit(network *Net) {
	now := time.Now()
	for i := range d.segments {
		if !d.segments[i].arrival.After(now) {
			continue
		}
		if !d.holding {
			d.startHolding(network)
		}
		d.segments[i].held = true
	}
}

// sendHeld sends the held segments.
func (d *direction) sendHeld(network *Net) {
	d.holding = false
	for i := range d.segments {
		if d.segments[i].held {
			d.scheduleArrival(network, &d.segments[i])
		}
	}
	d.reader.wake.notifyAll()
}

// hasUnreadData reports whether data has arrived that the reader has not read.
func (d *direction) hasUnreadData(now time.Time) bool {
	return len(d.segments) > 0 && d.segments[0].hasArrived(now) && d.segments[0].endErr == nil
}

// discardUnread drops the segments that the closed reader will never read.
func (d *direction) discardUnread() {
	d.readerClosed = true
	d.segments, d.unreadBytes = nil, 0
	d.writer.wake.notifyAll()
}

// dropInTransit drops the segments that have not arrived, including the end of the stream.
func (d *direction) dropInTransit() {
	now := time.Now()
	for i := range d.segments {
		if d.segments[i].hasArrived(now) {
			continue
		}
		for _, seg := range d.segments[i:] {
			d.unreadBytes -= len(seg.data)
		}
		d.segments = d.segments[:i]
		return
	}
}
