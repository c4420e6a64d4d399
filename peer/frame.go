package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxFrame is the longest message WriteFrame sends.
const MaxFrame = 1 << 20

// frameStep is how much ReadFrame allocates before the bytes are there: a
// length that lies costs no more.
const frameStep = 64 << 10

// ErrFrameTooLarge reports a message longer than allowed. When reading, the
// stream is of no use after it.
var ErrFrameTooLarge = errors.New("peer: frame too large")

// WriteFrame writes b with its length (4 bytes, big endian) before it, in one
// Write. Time is bounded by w's write deadline.
func WriteFrame(w io.Writer, b []byte) error {
	if len(b) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d allowed", ErrFrameTooLarge, len(b), MaxFrame)
	}
	f := make([]byte, 4+len(b))
	binary.BigEndian.PutUint32(f, uint32(len(b)))
	copy(f[4:], b)
	_, err := w.Write(f)
	return err
}

// ReadFrame reads one message of at most limit bytes into buf, growing it as
// needed, and returns it; it shares buf's memory. At the end of the stream
// between messages the error is io.EOF, within one io.ErrUnexpectedEOF.
func ReadFrame(r io.Reader, buf []byte, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(min(limit, MaxFrame)) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d allowed", ErrFrameTooLarge, n, min(limit, MaxFrame))
	}
	buf = buf[:0]
	for len(buf) < int(n) {
		step := min(int(n)-len(buf), max(frameStep, cap(buf)-len(buf)))
		at := len(buf)
		buf = slices.Grow(buf, step)[:at+step]
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}
