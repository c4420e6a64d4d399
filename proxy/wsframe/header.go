package wsframe

import "encoding/binary"

// header collects the bytes of one frame header (RFC 6455 section 5.2). The zero value is an empty
// header.
type header struct {
	bytes [14]byte
	n     int // number of bytes so far
}

// add adds the next byte of the header, and reports whether the header is complete.
func (h *header) add(b byte) (complete bool) {
	h.bytes[h.n] = b
	h.n++
	return h.isComplete()
}

// isComplete reports whether all bytes of the header have been added.
func (h *header) isComplete() bool { return h.n >= 2 && h.n == h.len() }

// len returns the length of the header. At least two bytes must have been added.
func (h *header) len() int {
	n := 2
	switch h.shortLen() {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if h.isMasked() {
		n += 4
	}
	return n
}

// shortLen returns the length in the second byte. The values 126 and 127 announce a longer length in
// the bytes that follow.
func (h *header) shortLen() byte { return h.bytes[1] & 0x7f }

// payloadLen returns the length of the payload. The header must be complete.
func (h *header) payloadLen() uint64 {
	switch n := h.shortLen(); n {
	case 126:
		return uint64(binary.BigEndian.Uint16(h.bytes[2:]))
	case 127:
		return binary.BigEndian.Uint64(h.bytes[2:])
	default:
		return uint64(n)
	}
}

// isMasked reports whether the payload is masked. At least two bytes must have been added.
func (h *header) isMasked() bool { return h.bytes[1]&0x80 != 0 }

// isFinal reports whether the frame is the last one of its message.
func (h *header) isFinal() bool { return h.bytes[0]&0x80 != 0 }

// opcode returns the opcode of the frame. It also returns the one of the previous frame until the
// first byte has been added.
func (h *header) opcode() byte { return h.bytes[0] & 0x0f }
