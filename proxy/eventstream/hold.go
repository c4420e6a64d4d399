package eventstream

import "io"

const (
	// MaxHeld is how much of an event that is not whole is held, in bytes.
	MaxHeld = 64 << 10
	// smallHeld is the room that is kept for the next one.
	smallHeld = 4 << 10
)

// Hold passes whole events on, and keeps what there is of one that is not. An event
// longer than MaxHeld passes as it comes. The zero Hold passes all of the first
// connection; of later ones the byte order mark stays behind.
type Hold struct {
	held []byte
	long bool  // the event that is open has begun to pass
	skip uint8 // bytes of a byte order mark that have come
	look bool  // one may come
}

// Pass takes the bytes that come next, and passes on what is whole: all that is held,
// and the first whole bytes of p, as Scanner.Next returned. The error is w's.
func (h *Hold) Pass(w io.Writer, p []byte, whole int) error {
	if h.look {
		p, whole = h.unmark(p, whole)
	}
	if whole > 0 {
		if err := h.flush(w, p[:whole]); err != nil {
			return err
		}
		h.long, p = false, p[whole:]
	}
	if h.long || len(h.held)+len(p) > MaxHeld {
		h.long = true
		return h.flush(w, p)
	}
	h.held = append(h.held, p...)
	return nil
}

// flush passes on what is held, and p.
func (h *Hold) flush(w io.Writer, p []byte) error {
	if len(h.held) > 0 {
		if _, err := w.Write(h.held); err != nil {
			return err
		}
	}
	h.free()
	if len(p) == 0 {
		return nil
	}
	_, err := w.Write(p)
	return err
}

// unmark takes a byte order mark away from the start of a connection.
func (h *Hold) unmark(p []byte, whole int) ([]byte, int) {
	for len(p) > 0 && h.look {
		if p[0] != mark[h.skip] {
			h.held, h.look = append(h.held, mark[:h.skip]...), false
			break
		}
		p, whole = p[1:], max(whole-1, 0)
		h.skip++
		h.look = int(h.skip) < len(mark)
	}
	return p, whole
}

// Amid reports whether part of an event has passed whose end has not: it can go on
// nowhere else.
func (h *Hold) Amid() bool { return h.long }

// Held returns how many bytes are held.
func (h *Hold) Held() int { return len(h.held) }

// End passes on what is held, as the stream ends with it. The error is w's.
func (h *Hold) End(w io.Writer) error { return h.flush(w, nil) }

// Again forgets what is held, for the stream goes on over another connection.
func (h *Hold) Again() {
	h.free()
	*h = Hold{held: h.held, look: true}
}

func (h *Hold) free() {
	h.held = h.held[:0]
	if cap(h.held) > smallHeld {
		h.held = nil
	}
}
