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

// frameAllocStep is the number of bytes that ReadFrame allocates before the data arrives. A false length
// therefore causes no larger allocation.
const frameAllocStep = 64 << 10

// ErrFrameTooLarge reports a message that exceeds the limit. After it, no further message can be
// read from the stream.
var ErrFrameTooLarge = errors.New("peer: frame too large")

// WriteFrame writes a message, preceded by its length (4 bytes, big endian), in one Write. The
// write deadline of w limits the time.
func WriteFrame(w io.Writer, message []byte) error {
	if len(message) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d allowed", ErrFrameTooLarge, len(message), MaxFrame)
	}
	encoded := make([]byte, 4+len(message))
	binary.BigEndian.PutUint32(encoded, uint32(len(message)))
	copy(encoded[4:], message)
	_, err := w.Write(encoded)
	return err
}

// ReadFrame reads one message of up to limit bytes. It uses buf, which it grows if necessary, and
// returns the message in the same memory. At the end of the stream it returns io.EOF between two
// messages, and io.ErrUnexpectedEOF within a message.
func ReadFrame(r io.Reader, buf []byte, limit int) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(header[:]))
	if size > int64(min(limit, MaxFrame)) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d allowed", ErrFrameTooLarge, size, min(limit, MaxFrame))
	}
	buf = buf[:0]
	for len(buf) < int(size) {
		step := min(int(size)-len(buf), max(frameAllocStep, cap(buf)-len(buf)))
		received := len(buf)
		buf = slices.Grow(buf, step)[:received+step]
		if _, err := io.ReadFull(r, buf[received:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}
