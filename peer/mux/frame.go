package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame is a head of 8 bytes, that is its length (3 bytes, big endian, without the
// head), its kind (1) and the number of its lane (4), and what it carries.
const (
	headerLen = 8
	// maxData bounds what one frame carries: who has more to say lets others in between.
	maxFrameData = 16 << 10
	// creditLen is what a credit carries: by how many bytes it grows (4).
	windowUpdateLen = 4
)

// kind says what a frame is. The numbers are part of the protocol.
type frameType byte

const (
	// kindOpen opens a lane. Numbers rise.
	frameOpen frameType = iota + 1
	// kindData carries bytes of a lane.
	frameData
	// kindEnd says that no more bytes come on a lane.
	frameEndStream
	// kindClose says that, and that nothing is read of it any more.
	frameClose
	// kindReset cuts a lane.
	frameReset
	// kindCredit says how much more may be sent on a lane.
	frameWindowUpdate
	// kindPing wants a pong; their lane is 0.
	framePing
	// kindLast says that no lane opened after this one has been taken, nor will be; 0: none.
	frameGoAway
	// kindPong says that a ping has been read.
	framePong
	// kindRefuse says that a lane has not been taken: nothing of it has been read, nor will be.
	frameRefuse
)

// frame is one frame as it came; data is valid until the next one is read.
type frame struct {
	typ    frameType
	stream uint32
	data   []byte
}

// errFrame is what a connection is closed for that does not keep to the format, or to the
// order of things.
var errProtocol = errors.New("trunk: bad frame")

// appendFrame appends a frame; data is no longer than maxData.
func appendFrame(b []byte, k frameType, lane uint32, data []byte) []byte {
	n := len(data)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(k))
	b = binary.BigEndian.AppendUint32(b, lane)
	return append(b, data...)
}

// cutFrame takes the first frame off b. It returns how long that is, zero if it is not
// all there yet.
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

// judge judges a head.
func (f *frame) validate(size int) error {
	var least, most int
	switch f.typ {
	case frameData:
		least, most = 1, maxFrameData
	case frameWindowUpdate:
		least, most = windowUpdateLen, windowUpdateLen
	case frameOpen, frameEndStream, frameClose, frameReset, framePing, frameGoAway, framePong, frameRefuse:
	default:
		return fmt.Errorf("%w: kind %d", errProtocol, f.typ)
	}
	switch {
	case size < least || size > most:
		return fmt.Errorf("%w: kind %d with %d bytes", errProtocol, f.typ, size)
	case f.typ != frameGoAway && (f.stream == 0) != (f.typ == framePing || f.typ == framePong):
		return fmt.Errorf("%w: kind %d on lane %d", errProtocol, f.typ, f.stream)
	}
	return nil
}
