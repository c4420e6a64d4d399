package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxFrame is the maximum length of a message that WriteFrame sends.
const MaxFrame = 1 << 20

// frameStep is the number of bytes that ReadFrame allocates before the data arrives. A false length
// therefore causes no larger allocation.
const frameStep = 64 << 10

// ErrFrameTooLarge reports a message that exceeds the limit. After it, no further message can be
// read from the stream.
var ErrFrameTooLarge = errors.New("peer: frame too large")

// WriteFrame writes b, preceded by its length (4 bytes, big endian), in one Write. The write
// deadline of w limits the time.
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

// ReadFrame reads one message of up to limit bytes. It uses buf, which it grows if necessary, and
// returns the message in the same memory. At the end of the stream it returns io.EOF between two
// messages, and io.ErrUnexpectedEOF within a message.
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
