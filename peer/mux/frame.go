package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame is a header of 8 bytes and a payload. The header has the payload length (3 bytes, big
// endian), the frame type (1 byte) and the stream ID (4 bytes, big endian).
const (
	headerLen = 8
	// maxFrameData limits the payload of one frame, so that long writes interleave with others.
	maxFrameData = 16 << 10
	// windowUpdateLen is the payload length of a window update: a credit increment of 4 bytes.
	windowUpdateLen = 4
)

// frameType is the type of a frame. The values are part of the protocol.
type frameType byte

const (
	// frameOpen opens a stream. IDs increase.
	frameOpen frameType = iota + 1
	// frameData carries bytes of a stream.
	frameData
	// frameEndStream ends one direction of a stream: the sender sends no more data.
	frameEndStream
	// frameClose closes a stream: the sender sends no more data and reads none.
	frameClose
	// frameReset aborts a stream.
	frameReset
	// frameWindowUpdate grants more credit for a stream.
	frameWindowUpdate
	// framePing requests a pong. The stream ID of both is 0.
	framePing
	// frameGoAway announces that no stream with a higher ID has been or will be accepted. 0 means
	// none.
	frameGoAway
	// framePong answers a ping.
	framePong
	// frameRefuse refuses a stream: nothing of it has been or will be read.
	frameRefuse
)

// frame is a parsed frame. data is valid until the next read.
type frame struct {
	typ    frameType
	stream uint32
	data   []byte
}

// errProtocol is the error of a session whose peer sends a malformed frame or one in the wrong
// state.
var errProtocol = errors.New("mux: protocol error")

// appendFrame appends a frame to b. data must not be longer than maxFrameData.
func appendFrame(b []byte, typ frameType, stream uint32, data []byte) []byte {
	n := len(data)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(typ))
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, data...)
}

// parseFrame parses the first frame of b. It returns its length n, zero if b does not contain the
// whole frame.
func parseFrame(b []byte) (f frame, n int, err error) {
	if len(b) < headerLen {
		return frame{}, 0, nil
	}
	size := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	f = frame{typ: frameType(b[3]), stream: binary.BigEndian.Uint32(b[4:])}
	if err := f.validate(size); err != nil {
		return frame{}, 0, err
	}
	if len(b) < headerLen+size {
		return frame{}, 0, nil
	}
	f.data = b[headerLen : headerLen+size : headerLen+size]
	return f, headerLen + size, nil
}

// validate checks the header of the frame. size is the payload length.
func (f *frame) validate(size int) error {
	var minSize, maxSize int
	switch f.typ {
	case frameData:
		minSize, maxSize = 1, maxFrameData
	case frameWindowUpdate:
		minSize, maxSize = windowUpdateLen, windowUpdateLen
	case frameOpen, frameEndStream, frameClose, frameReset, framePing, frameGoAway, framePong, frameRefuse:
	default:
		return fmt.Errorf("%w: unknown frame type %d", errProtocol, f.typ)
	}
	if size < minSize || size > maxSize {
		return fmt.Errorf("%w: frame type %d with %d bytes", errProtocol, f.typ, size)
	}
	belongsToSession := f.typ == framePing || f.typ == framePong
	hasValidStream := f.typ == frameGoAway || (f.stream == 0) == belongsToSession
	if !hasValidStream {
		return fmt.Errorf("%w: frame type %d on stream %d", errProtocol, f.typ, f.stream)
	}
	return nil
}
