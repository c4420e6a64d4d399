package proxy

import "encoding/binary"

// frames follows WebSocket frames (RFC 6455 section 5.2) as they pass, to know
// where one of our own may stand between them. It looks at lengths and opcodes
// only, so no extension disturbs it.
type frames struct {
	head   [14]byte
	have   int    // bytes of a head so far
	left   uint64 // bytes of a payload still to come
	closed bool   // a close frame has begun: nothing may follow it
}

// advance takes the bytes that pass next.
func (f *frames) advance(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			continue
		}
		f.head[f.have] = p[0]
		f.have++
		p = p[1:]
		if f.have < 2 || f.have < f.headLen() {
			continue
		}
		f.left = f.payload()
		f.closed = f.closed || f.head[0]&0x0f == opClose
		f.have = 0
	}
}

// between reports whether a frame may be put in here.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 && !f.closed }

// headLen returns the length of the frame's head, once two bytes of it are there.
func (f *frames) headLen() int {
	n := 2
	switch f.head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

// payload returns the length of the frame's payload, once its head is there.
func (f *frames) payload() uint64 {
	switch n := f.head[1] & 0x7f; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.head[2:])
	default:
		return uint64(n)
	}
}

const opClose = 8

// closeCode is the code in a close frame (RFC 6455 section 7.4.1, and its registry).
type closeCode uint16

const (
	closeLeaving closeCode = 1001 // come again elsewhere
	closeMoved   closeCode = 1012 // come again
)

// reason returns the text that stands behind the code.
func (c closeCode) reason() string {
	if c == closeLeaving {
		return "the node is leaving"
	}
	return "the shard moved"
}

// appendClose appends a close frame. Frames towards the app are masked, as a
// client's are, with the given key (RFC 6455 section 5.3).
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
