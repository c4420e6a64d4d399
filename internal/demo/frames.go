package demo

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455 section 4.2.2 wants it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
)

// What the chat needs of RFC 6455. It is written here because the binary has no other use
// for a library; an app of yours takes one (docs/apps/chat.md).
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xa

	closeUnfit = 1007 // of a message that is none
	closeLong  = 1009
	closeAgain = 1012 // asks for another leg

	// maxFrame is more than what somebody says.
	maxFrame = 3 << 10
)

// errLong reports a frame that is too long for what is said here, or a part of a message.
var errLong = errors.New("demo: a message too long")

func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frame is one, unmasked.
type frame struct {
	op      byte
	payload []byte
}

// readFrame reads a frame of a client: masked, and a whole message.
func readFrame(r *bufio.Reader) (f frame, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	size := uint64(head[1] & 0x7f)
	switch size {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(r, b[:])
		size = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		return f, errLong
	}
	if err == nil && (size > maxFrame || head[0]&0x80 == 0) {
		err = errLong
	}
	if err != nil {
		return f, err
	}
	mask := make([]byte, 4+size)
	if _, err := io.ReadFull(r, mask); err != nil {
		return f, err
	}
	f.op, f.payload = head[0]&0x0f, mask[4:]
	for i := range f.payload {
		f.payload[i] ^= mask[i&3]
	}
	return f, nil
}

// code is that of a Close.
func (f frame) code() uint16 {
	if len(f.payload) < 2 {
		return 1000
	}
	return binary.BigEndian.Uint16(f.payload)
}

// closeOf returns the code to close a connection with that cannot be read on; zero: it has
// ended.
func closeOf(err error) uint16 {
	if errors.Is(err, errLong) {
		return closeLong
	}
	return 0
}

// appendFrame appends a frame of a server, of less than 64 KiB.
func appendFrame(b []byte, op byte, payload []byte) []byte {
	b = append(b, 0x80|op)
	if len(payload) < 126 {
		b = append(b, byte(len(payload)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(len(payload)))
	}
	return append(b, payload...)
}
