package proxy

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"shardway/proxy/eventstream"
	"shardway/proxy/h1"
)

// events is an event stream on its way (text/event-stream), which ends between two
// events when its shard moves: who reads it comes again, and has lost no half event.
// Its goroutine passes events on; another one may end it. Who comes first is decided
// by one word:
//
//	between ──enter──► busy ──leave──► between, amid (an event has begun and not ended)
//	   └───end───► over ◄──leave, if end came meanwhile and no event is open
//
// The word has the number of the run that the stream belongs to: who looked at one run, and
// comes late, does not end the stream of the next.
type events struct {
	state atomic.Uint64 // the run (32 bits), flags
	scan  eventstream.Scanner
	word  bool              // the app says that it goes on elsewhere
	later bool              // it does already, and has shown an id before
	hold  *eventstream.Hold // what is not whole waits there; nil: it passes as it comes
}

const (
	eventsBusy uint64 = 1 << iota // its goroutine passes something on
	eventsAmid                    // an event is open
	eventsWant                    // to be ended at the next blank line
	eventsOver                    // nothing may be passed on any more
	eventsKept                    // it can go on elsewhere
	eventsRun  = 32               // shift
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

// begin begins with the first answer's stream.
func (e *events) begin(run uint32, word, later bool, hold *eventstream.Hold) {
	e.scan = eventstream.Scanner{}
	e.start(run, word, later, hold)
}

// again begins with the stream of an answer that goes on where the last one ended.
func (e *events) again(run uint32, word bool) {
	e.scan.Again()
	e.hold.Again()
	e.start(run, word, true, e.hold)
}

func (e *events) start(run uint32, word, later bool, hold *eventstream.Hold) {
	e.word, e.later, e.hold = word, later, hold
	e.state.Store(uint64(run)<<eventsRun | e.keeps())
}

// keeps returns eventsKept if the stream can go on elsewhere.
func (e *events) keeps() uint64 {
	if !e.word {
		return 0
	}
	if _, ok := e.scan.ID(); ok || e.later && !e.scan.Spoilt() {
		return eventsKept
	}
	return 0
}

// kept reports whether that of a run can, for who looks from outside.
func (e *events) kept(run uint32) bool {
	now := e.state.Load()
	return uint32(now>>eventsRun) == run && now&eventsKept != 0
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
			over, werr := e.put(w, part)
			if werr != nil {
				return nil, werr
			}
			if over {
				return errOver, w.Flush()
			}
		}
		switch {
		case errors.Is(err, io.EOF) && e.hold != nil:
			return nil, e.hold.End(w)
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

// put puts a part of the stream into the buffer, and tells whether it ends with that.
func (e *events) put(w *h1.Writer, part []byte) (over bool, err error) {
	var whole int
	if e.state.Load()&eventsWant == 0 {
		whole = e.scan.Next(part)
	} else if n, ends := e.scan.Until(part); ends {
		part, whole, over = part[:n], n, true
	}
	if e.hold != nil {
		return over, e.hold.Pass(w, part, whole)
	}
	_, err = w.Write(part)
	return over, err
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
		next := old&^(eventsBusy|eventsAmid|eventsKept) | e.keeps()
		if !e.scan.Between() {
			next |= eventsAmid
		} else if old&eventsWant != 0 {
			next |= eventsOver
		}
		if e.state.CompareAndSwap(old, next) {
			return next&eventsOver == 0
		}
	}
}

// end asks for the end of a run's stream. True means that it is over: its link may be cut.
func (e *events) end(run uint32) bool {
	for {
		old := e.state.Load()
		if uint32(old>>eventsRun) != run || old&eventsOver != 0 {
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
