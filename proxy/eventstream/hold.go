package eventstream

import "io"

const (
	// MaxBuffered is how many bytes of an incomplete event are buffered.
	MaxBuffered = 64 << 10
	// maxReused is the capacity in bytes that is kept for the next event.
	maxReused = 4 << 10
)

// Buffer writes complete events, and buffers an incomplete one. An event longer than MaxBuffered is
// written as it arrives. The zero Buffer writes everything of the first connection, and omits the
// byte order mark of later ones.
type Buffer struct {
	buffered []byte
	tooLong  bool  // part of the current event has been written
	bomBytes uint8 // bytes of a byte order mark that have arrived
	mayBeBOM bool  // a byte order mark may follow
}

// Write takes the next bytes of the stream, and writes to w what is complete: everything buffered,
// and the first complete bytes of p, as returned by Scanner.Next. The error is that of w.
func (h *Buffer) Write(w io.Writer, p []byte, whole int) error {
	if h.mayBeBOM {
		p, whole = h.skipBOM(p, whole)
	}
	if whole > 0 {
		if err := h.flush(w, p[:whole]); err != nil {
			return err
		}
		h.tooLong, p = false, p[whole:]
	}
	if h.tooLong || len(h.buffered)+len(p) > MaxBuffered {
		h.tooLong = true
		return h.flush(w, p)
	}
	h.buffered = append(h.buffered, p...)
	return nil
}

// flush writes the buffered bytes, and p.
func (h *Buffer) flush(w io.Writer, p []byte) error {
	if len(h.buffered) > 0 {
		if _, err := w.Write(h.buffered); err != nil {
			return err
		}
	}
	h.reset()
	if len(p) == 0 {
		return nil
	}
	_, err := w.Write(p)
	return err
}

// skipBOM removes a byte order mark from the start of a connection.
func (h *Buffer) skipBOM(p []byte, whole int) ([]byte, int) {
	for len(p) > 0 && h.mayBeBOM {
		if p[0] != byteOrderMark[h.bomBytes] {
			h.buffered, h.mayBeBOM = append(h.buffered, byteOrderMark[:h.bomBytes]...), false
			break
		}
		p, whole = p[1:], max(whole-1, 0)
		h.bomBytes++
		h.mayBeBOM = int(h.bomBytes) < len(byteOrderMark)
	}
	return p, whole
}

// InEvent reports whether an event has been written only in part. The stream cannot be resumed
// then.
func (h *Buffer) InEvent() bool { return h.tooLong }

// Buffered returns the number of buffered bytes.
func (h *Buffer) Buffered() int { return len(h.buffered) }

// End writes the buffered bytes when the stream ends with them. The error is that of w.
func (h *Buffer) End(w io.Writer) error { return h.flush(w, nil) }

// Resume drops the buffered bytes, because the stream continues over another connection.
func (h *Buffer) Resume() {
	h.reset()
	*h = Buffer{buffered: h.buffered, mayBeBOM: true}
}

func (h *Buffer) reset() {
	h.buffered = h.buffered[:0]
	if cap(h.buffered) > maxReused {
		h.buffered = nil
	}
}
