package proxy

import "encoding/binary"

// frameTracker parses WebSocket frames (RFC 6455 section 5.2) that are being copied, to find the
// boundaries at which another frame can be inserted. It parses only lengths and opcodes, so
// extensions do not affect it.
type frameTracker struct {
	header      [14]byte
	headerRead  int    // bytes of a header so far
	payloadLeft uint64 // bytes of a payload still to come
	closed      bool   // a close frame has begun, so no frame may follow
}

// advance parses the next copied bytes.
func (f *frameTracker) advance(p []byte) {
	for len(p) > 0 {
		if f.payloadLeft > 0 {
			n := min(f.payloadLeft, uint64(len(p)))
			f.payloadLeft -= n
			p = p[n:]
			continue
		}
		f.header[f.headerRead] = p[0]
		f.headerRead++
		p = p[1:]
		if f.headerRead < 2 || f.headerRead < f.headerLen() {
			continue
		}
		f.payloadLeft = f.payloadLen()
		f.closed = f.closed || f.header[0]&0x0f == opClose
		f.headerRead = 0
	}
}

// isBetweenFrames reports whether another frame can be inserted now.
func (f *frameTracker) isBetweenFrames() bool {
	return f.headerRead == 0 && f.payloadLeft == 0 && !f.closed
}

// headerLen returns the length of the frame header. At least two bytes of the header must have been
// parsed.
func (f *frameTracker) headerLen() int {
	n := 2
	switch f.header[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.header[1]&0x80 != 0 {
		n += 4
	}
	return n
}

// payloadLen returns the length of the payload. The header must be complete.
func (f *frameTracker) payloadLen() uint64 {
	switch n := f.header[1] & 0x7f; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.header[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.header[2:])
	default:
		return uint64(n)
	}
}

const opClose = 8

// closeCode is the code in a close frame (RFC 6455 section 7.4.1, and its registry).
type closeCode uint16

const (
	closeLeaving closeCode = 1001 // the node is leaving, so the client must connect to another one
	closeMoved   closeCode = 1012 // the shard has moved, so the client must reconnect
)

// reason returns the text that follows the code.
func (c closeCode) reason() string {
	if c == closeLeaving {
		return "the node is leaving"
	}
	return "the shard moved"
}

// appendClose appends a close frame. Frames to the app are masked with the given key, like those of
// a client (RFC 6455 section 5.3).
func appendClose(b []byte, code closeCode, masked bool, key [4]byte) []byte {
	payload := binary.BigEndian.AppendUint16(make([]byte, 0, 32), uint16(code))
	payload = append(payload, code.reason()...)
	b = append(b, 0x80|opClose)
	if !masked {
		b = append(b, byte(len(payload)))
		return append(b, payload...)
	}
	b = append(b, 0x80|byte(len(payload)))
	b = append(b, key[:]...)
	for i, c := range payload {
		b = append(b, c^key[i%len(key)])
	}
	return b
}
