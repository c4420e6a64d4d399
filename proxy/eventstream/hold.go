package eventstream

import "io"

const (
	// MaxBuffered is how much of an event that is not whole is held, in bytes.
	MaxBuffered = 64 << 10
	// maxReused is the room that is kept for the next one.
	maxReused = 4 << 10
)

// Hold passes whole events on, and keeps what there is of one that is not. An event
// longer than MaxBuffered passes as it comes. The zero Hold passes all of the first
// connection; of later ones the byte order mark stays behind.
type Buffer struct {
	buffered []byte
	tooLong  bool  // the event that is open has begun to pass
	bomBytes uint8 // bytes of a byte order mark that have come
	mayBeBOM bool  // one may come
}

// Pass takes the bytes that come next, and passes on what is whole: all that is held,
// and the first whole bytes of p, as Scanner.Next returned. The error is w's.
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

// flush passes on what is held, and p.
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

// unmark takes a byte order mark away from the start of a connection.
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

// Amid reports whether part of an event has passed whose end has not: it can go on
// nowhere else.
func (h *Buffer) InEvent() bool { return h.tooLong }

// Held returns how many bytes are held.
func (h *Buffer) Buffered() int { return len(h.buffered) }

// End passes on what is held, as the stream ends with it. The error is w's.
func (h *Buffer) End(w io.Writer) error { return h.flush(w, nil) }

// Again forgets what is held, for the stream goes on over another connection.
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
