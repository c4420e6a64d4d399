package proxy

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"shardway/proxy/h1"
)

// events is an event stream on its way (text/event-stream), which ends between two
// events when its shard moves: who reads it comes again, and has lost no half event.
// Its goroutine passes events on; another one may end it. Who comes first is decided
// by one word:
//
//	between ──enter──► busy ──leave──► between, amid (an event has begun and not ended)
//	   └───end───► over ◄──leave, if end came meanwhile and no event is open
type events struct {
	state atomic.Uint32
	lines lines
}

const (
	eventsBusy uint32 = 1 << iota // its goroutine passes something on
	eventsAmid                    // an event is open
	eventsWant                    // to be ended at the next blank line
	eventsOver                    // nothing may be passed on any more
)

// errOver ends an event stream at a blank line.
var errOver = errors.New("proxy: event stream ended between events")

// isEvents reports whether an answer is an event stream.
func isEvents(res *h1.Response) bool {
	const kind = "text/event-stream"
	v := res.Known(h1.FieldContentType)
	if len(v) < len(kind) || !bytes.EqualFold(v[:len(kind)], []byte(kind)) || res.Status() != 200 {
		return false
	}
	rest := bytes.TrimLeft(v[len(kind):], " \t")
	return len(rest) == 0 || rest[0] == ';'
}

func (e *events) begin() {
	e.lines = lines{blank: true, between: true}
	e.state.Store(0)
}

// copy passes the events on as they come. As with h1.Writer.Copy the first error is
// the source's, or errOver, the second the destination's.
func (e *events) copy(w *h1.Writer, body *h1.Body) (rerr, werr error) {
	if !e.enter() {
		return errOver, nil
	}
	for {
		part, err := body.Ready()
		if len(part) > 0 {
			over := false
			if e.state.Load()&eventsWant != 0 {
				part, over = e.lines.upTo(part)
			} else {
				e.lines.advance(part)
			}
			if _, werr = w.Write(part); werr != nil {
				return nil, werr
			}
			if over {
				return errOver, w.Flush()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		case len(part) > 0:
			continue
		}
		if err := w.Flush(); err != nil {
			return nil, err
		}
		w.Idle()
		if !e.leave() {
			return errOver, nil
		}
		if err := body.Await(); err != nil {
			return err, nil
		}
		if !e.enter() {
			return errOver, nil
		}
	}
}

// enter takes the right to pass something on; false means that the stream is over.
func (e *events) enter() bool {
	for {
		old := e.state.Load()
		if old&eventsOver != 0 {
			return false
		}
		if e.state.CompareAndSwap(old, old|eventsBusy) {
			return true
		}
	}
}

// leave gives it back; false means that the stream ends here.
func (e *events) leave() bool {
	for {
		old := e.state.Load()
		next := old &^ (eventsBusy | eventsAmid)
		if !e.lines.between {
			next |= eventsAmid
		} else if old&eventsWant != 0 {
			next |= eventsOver
		}
		if e.state.CompareAndSwap(old, next) {
			return next&eventsOver == 0
		}
	}
}

// end asks for the end. True means that it is over: its link may be cut.
func (e *events) end() bool {
	for {
		old := e.state.Load()
		if old&eventsOver != 0 {
			return true
		}
		next := old | eventsWant
		if old&(eventsBusy|eventsAmid) == 0 {
			next |= eventsOver
		}
		if e.state.CompareAndSwap(old, next) {
			return next&eventsOver != 0
		}
	}
}

// lines follows the lines of an event stream, which end in CR, LF or CRLF: a blank
// one ends an event (WHATWG HTML, section 9.2).
type lines struct {
	blank   bool // the present line has no byte
	cr      bool // the last byte was CR
	between bool // the last line was blank
}

// advance takes the bytes that pass next.
func (l *lines) advance(p []byte) {
	for _, b := range p {
		l.next(b)
	}
}

// upTo takes bytes up to the end of the first blank line, none if the last line was
// one, and returns them and whether there is one.
func (l *lines) upTo(p []byte) ([]byte, bool) {
	if l.between {
		return nil, true
	}
	for i, b := range p {
		if l.next(b); l.between && (b == '\n' || i+1 == len(p) || p[i+1] != '\n') {
			return p[:i+1], true
		}
	}
	return p, false
}

func (l *lines) next(b byte) {
	switch {
	case b == '\n' && l.cr:
		l.cr = false // it belongs to the line that CR ended
	case b == '\n' || b == '\r':
		l.between, l.blank, l.cr = l.blank, true, b == '\r'
	default:
		l.between, l.blank, l.cr = false, false, false
	}
}
