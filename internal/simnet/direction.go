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
	// holding means that all segments from some segment on wait until the route is open.
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
func (d *direction) send(network *Net, seg segment) {
	if !d.holding && !network.canSend(d) {
		d.startHolding(network)
	}
	if seg.held = d.holding; !seg.held {
		d.scheduleArrival(network, &seg)
	}
	d.segments = append(d.segments, seg)
	if !seg.held && time.Until(seg.ownArrival) < retransmit {
		d.retransmitLost(network, seg.ownArrival)
	}
	d.unreadBytes += len(seg.data)
	if seg.endErr != nil {
		d.endSent = true
	}
	d.reader.wake.notifyAll()
}

// canSend reports whether data written now leaves the host and arrives.
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
// on: the route may have improved.
func (d *direction) redrawDelays(network *Net, now time.Time) {
	var last time.Time
	for i := range d.segments {
		seg := &d.segments[i]
		if seg.ownArrival.After(now) {
			next, wait := seg.sentAt, retransmit
			for ; next.Before(now); wait *= 2 {
				next = next.Add(wait)
			}
			if arrival := next.Add(network.link(d.from.machine, d.to.machine).segmentDelay(network.rng)); arrival.Before(seg.ownArrival) {
				seg.ownArrival = arrival
			}
		}
		seg.arrival = later(seg.ownArrival, last)
		last = seg.arrival
	}
	d.lastArrival = last
	d.reader.wake.notifyAll()
}

// retransmitLost retransmits missing segments when a later one arrives: its acknowledgement reports
// the gap (SACK, RFC 8985) long before their own timers expire.
func (d *direction) retransmitLost(network *Net, arrived time.Time) {
	if !network.isRouteOpen(d.to.machine, d.from.machine) {
		return
	}
	forward, reverse := network.link(d.from.machine, d.to.machine), network.link(d.to.machine, d.from.machine)
	reportedAt := arrived.Add(reverse.packetDelay(network.rng))
	var last time.Time
	for i := range d.segments {
		seg := &d.segments[i]
		if retransmitted := reportedAt.Add(forward.packetDelay(network.rng)); seg.ownArrival.After(retransmitted) && !forward.isPacketLost(network.rng) {
			seg.ownArrival = retransmitted
		}
		seg.arrival = later(seg.ownArrival, last)
		last = seg.arrival
	}
	d.lastArrival = last
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
	now := time.Now()
	switch open := network.isRouteOpen(d.from.machine, d.to.machine); {
	case !open && !d.holding:
		for i := range d.segments {
			if d.segments[i].arrival.After(now) {
				if !d.holding {
					d.startHolding(network)
				}
				d.segments[i].held = true
			}
		}
	case open && d.holding && network.canSend(d):
		d.holding = false
		for i := range d.segments {
			if d.segments[i].held {
				d.scheduleArrival(network, &d.segments[i])
			}
		}
		d.reader.wake.notifyAll()
	case open && !d.holding:
		d.redrawDelays(network, now)
	}
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
