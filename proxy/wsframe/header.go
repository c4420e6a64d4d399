package wsframe

import "encoding/binary"

// header collects the bytes of one frame header (RFC 6455 section 5.2). The zero value is an empty
// header.
type header struct {
	bytes [14]byte // 2 bytes, up to 8 bytes of length, and the masking key of 4 bytes
	n     int      // number of bytes that have arrived
}

// Values of the 7-bit length field that announce a longer length after it.
const (
	length16Bits = 126 // 2 bytes follow
	length64Bits = 127 // 8 bytes follow
)

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
	case length16Bits:
		n += 2
	case length64Bits:
		n += 8
	}
	if h.isMasked() {
		n += 4
	}
	return n
}

// shortLen returns the 7-bit length in the second byte. The values length16Bits and length64Bits
// announce a longer length in the bytes that follow.
func (h *header) shortLen() byte { return h.bytes[1] & 0x7f }

// payloadLen returns the length of the payload. The header must be complete.
func (h *header) payloadLen() uint64 {
	switch n := h.shortLen(); n {
	case length16Bits:
		return uint64(binary.BigEndian.Uint16(h.bytes[2:]))
	case length64Bits:
		return binary.BigEndian.Uint64(h.bytes[2:])
	default:
		return uint64(n)
	}
}

// maskingKey returns the masking key. The header must be complete, and its frame masked.
func (h *header) maskingKey() []byte { n := h.len(); return h.bytes[n-4 : n] }

// isMasked reports whether the payload is masked. At least two bytes must have been added.
func (h *header) isMasked() bool { return h.bytes[1]&0x80 != 0 }

// isFinal reports whether the frame is the last one of its message.
func (h *header) isFinal() bool { return h.bytes[0]&0x80 != 0 }

// opcode returns the opcode of the frame. Until the first byte has been added, it returns the
// opcode of the previous frame.
func (h *header) opcode() byte { return h.bytes[0] & 0x0f }
