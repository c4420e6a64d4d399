package wsframe

// Tracker finds the ends of frames, and validates nothing. Unlike a Scanner it accepts extensions and frames of
// either direction, so that it can follow a WebSocket whatever its endpoints have negotiated. The zero value is
// ready.
type Tracker struct {
	header      header // part of the current header that has arrived
	payloadLeft uint64 // bytes of the current payload that have not arrived
	closed      bool   // a close frame has begun
}

// Advance parses the next bytes of the stream.
func (t *Tracker) Advance(p []byte) {
	for len(p) > 0 {
		if t.payloadLeft > 0 {
			n := min(t.payloadLeft, uint64(len(p)))
			t.payloadLeft -= n
			p = p[n:]
			continue
		}
		if t.header.add(p[0]) {
			t.payloadLeft = t.header.payloadLen()
			t.closed = t.closed || t.header.opcode() == OpClose
			t.header.n = 0
		}
		p = p[1:]
	}
}

// Closed reports whether a close frame has begun. No frame may follow it.
func (t *Tracker) Closed() bool { return t.closed }

// AcceptsFrame reports whether another frame can be inserted now: no frame is incomplete, and no close
// frame has passed.
func (t *Tracker) AcceptsFrame() bool { return t.header.n == 0 && t.payloadLeft == 0 && !t.closed }
