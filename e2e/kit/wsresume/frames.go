//go:build linux

package wsresume

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455 section 4.2.2 requires SHA-1
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
)

// The part of RFC 6455 that an app needs. A library that answers a Close frame
// automatically cannot store anything before that.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10

	statusNormalClosure  = 1000
	statusServiceRestart = 1012 // a node sends it when the shard moves
)

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 section 4.2.2 requires SHA-1
	return base64.StdEncoding.EncodeToString(sum[:])
}

// readFrame reads one frame of a client. All clients here send masked, unfragmented and
// short frames.
func readFrame(r *bufio.Reader) (op byte, payload []byte, err error) {
	var header [6]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	size := header[1] & 0x7f
	if header[0]&0xf0 != 0x80 || header[1]&0x80 == 0 || size > 125 {
		return 0, nil, errors.New("wsresume: unsupported frame")
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		payload[i] ^= header[2+i%4]
	}
	return header[0] & 0xf, payload, nil
}

// frame returns an unmasked WebSocket frame, as servers send it (RFC 6455 section 5.2). The payload must have at most 125
// bytes, because the frame has no extended length.
func frame(op byte, payload []byte) []byte {
	return append([]byte{0x80 | op, byte(len(payload))}, payload...)
}

func closeFrame(code uint16) []byte {
	return frame(opClose, binary.BigEndian.AppendUint16(nil, code))
}

func closeCode(payload []byte) uint16 {
	if len(payload) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(payload)
}
