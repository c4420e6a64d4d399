package demo

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // required by RFC 6455, section 4.2.2
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
)

// The subset of RFC 6455 that the chat needs. It is implemented here because the binary needs no
// WebSocket library otherwise. Apps should use a library (docs/apps/chat.md).
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xa

	closeInvalid = 1007 // a message is invalid
	closeTooLong = 1009 // a message is too long
	closeRestart = 1012 // the node should open another upstream connection

	// maxFrame is the maximum payload in bytes.
	maxFrame = 3 << 10
)

// errTooLong means that a frame exceeds maxFrame or is a fragment.
var errTooLong = errors.New("demo: a message too long")

// acceptKey returns the value of Sec-WebSocket-Accept.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // required by RFC 6455, section 4.2.2
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frame is an unmasked frame.
type frame struct {
	op      byte
	payload []byte
}

// readFrame reads a masked frame that is a complete message.
func readFrame(r *bufio.Reader) (f frame, err error) {
	var header [2]byte
	if _, err = io.ReadFull(r, header[:]); err != nil {
		return f, err
	}
	size := uint64(header[1] & 0x7f)
	switch size {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(r, b[:])
		size = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		return f, errTooLong
	}
	if err == nil && (size > maxFrame || header[0]&0x80 == 0) {
		err = errTooLong
	}
	if err != nil {
		return f, err
	}
	mask := make([]byte, 4+size)
	if _, err := io.ReadFull(r, mask); err != nil {
		return f, err
	}
	f.op, f.payload = header[0]&0x0f, mask[4:]
	for i := range f.payload {
		f.payload[i] ^= mask[i&3]
	}
	return f, nil
}

// code returns the status code of a Close frame.
func (f frame) code() uint16 {
	if len(f.payload) < 2 {
		return 1000
	}
	return binary.BigEndian.Uint16(f.payload)
}

// closeCode returns the status code for a read error; zero means that the connection has ended.
func closeCode(err error) uint16 {
	if errors.Is(err, errTooLong) {
		return closeTooLong
	}
	return 0
}

// appendFrame appends an unmasked frame with a payload of less than 64 KiB.
func appendFrame(b []byte, op byte, payload []byte) []byte {
	b = append(b, 0x80|op)
	if len(payload) < 126 {
		b = append(b, byte(len(payload)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(len(payload)))
	}
	return append(b, payload...)
}
