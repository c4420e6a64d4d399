package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame is a head of 8 bytes, that is its length (3 bytes, big endian, without the
// head), its kind (1) and the number of its lane (4), and what it carries.
const (
	headLen = 8
	// maxData bounds what one frame carries: who has more to say lets others in between.
	maxData = 16 << 10
	// creditLen is what a credit carries: by how many bytes it grows (4).
	creditLen = 4
)

// kind says what a frame is. The numbers are part of the protocol.
type kind byte

const (
	// kindOpen opens a lane. Numbers rise.
	kindOpen kind = iota + 1
	// kindData carries bytes of a lane.
	kindData
	// kindEnd says that no more bytes come on a lane.
	kindEnd
	// kindClose says that, and that nothing is read of it any more.
	kindClose
	// kindReset cuts a lane.
	kindReset
	// kindCredit says how much more may be sent on a lane.
	kindCredit
	// kindPing wants a pong; their lane is 0.
	kindPing
	// kindLast says that no lane opened after this one has been taken, nor will be; 0: none.
	kindLast
	// kindPong says that a ping has been read.
	kindPong
	// kindRefuse says that a lane has not been taken: nothing of it has been read, nor will be.
	kindRefuse
)

// frame is one frame as it came; data is valid until the next one is read.
type frame struct {
	kind kind
	lane uint32
	data []byte
}

// errFrame is what a connection is closed for that does not keep to the format, or to the
// order of things.
var errFrame = errors.New("trunk: bad frame")

// appendFrame appends a frame; data is no longer than maxData.
func appendFrame(b []byte, k kind, lane uint32, data []byte) []byte {
	n := len(data)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(k))
	b = binary.BigEndian.AppendUint32(b, lane)
	return append(b, data...)
}

// cutFrame takes the first frame off b. It returns how long that is, zero if it is not
// all there yet.
func cutFrame(b []byte) (f frame, n int, err error) {
	if len(b) < headLen {
		return frame{}, 0, nil
	}
	size := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	f = frame{kind: kind(b[3]), lane: binary.BigEndian.Uint32(b[4:])}
	if err := f.judge(size); err != nil {
		return frame{}, 0, err
	}
	if len(b) < headLen+size {
		return frame{}, 0, nil
	}
	f.data = b[headLen : headLen+size : headLen+size]
	return f, headLen + size, nil
}

// judge judges a head.
func (f *frame) judge(size int) error {
	var least, most int
	switch f.kind {
	case kindData:
		least, most = 1, maxData
	case kindCredit:
		least, most = creditLen, creditLen
	case kindOpen, kindEnd, kindClose, kindReset, kindPing, kindLast, kindPong, kindRefuse:
	default:
		return fmt.Errorf("%w: kind %d", errFrame, f.kind)
	}
	switch {
	case size < least || size > most:
		return fmt.Errorf("%w: kind %d with %d bytes", errFrame, f.kind, size)
	case f.kind != kindLast && (f.lane == 0) != (f.kind == kindPing || f.kind == kindPong):
		return fmt.Errorf("%w: kind %d on lane %d", errFrame, f.kind, f.lane)
	}
	return nil
}
