package wsframe

import (
	"crypto/rand"
	"encoding/binary"
	"math"
)

// AppendClose appends a close frame with a code and a reason of up to 123 bytes of UTF-8. The code
// NoCode omits both. masked must be true for frames from client to server (RFC 6455 section 5.3).
func AppendClose(b []byte, code int, reason string, masked bool) []byte {
	var payload [maxControlPayload]byte
	n := 0
	if code != NoCode {
		binary.BigEndian.PutUint16(payload[:], uint16(code))
		n = 2 + copy(payload[2:], reason)
	}
	return AppendControl(b, OpClose, payload[:n], masked)
}

// AppendControl appends a control frame with a payload of up to 125 bytes.
func AppendControl(b []byte, op byte, payload []byte, masked bool) []byte {
	if masked {
		return appendMasked(b, op, payload)
	}
	b = append(b, 0x80|op, byte(len(payload)))
	return append(b, payload...)
}

// appendMasked appends an unfragmented frame of a client, with a new masking key.
func appendMasked(b []byte, op byte, payload []byte) []byte {
	b = append(b, 0x80|op)
	switch n := len(payload); {
	case n < length16Bits:
		b = append(b, 0x80|byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|length16Bits), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|length64Bits), uint64(n))
	}
	var key [4]byte
	_, _ = rand.Read(key[:]) // never fails
	b = append(b, key[:]...)
	for i, c := range payload {
		b = append(b, c^key[i&3])
	}
	return b
}
