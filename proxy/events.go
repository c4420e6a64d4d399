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
type eventRelay struct {
	state     atomic.Uint64 // the run (32 bits), flags
	scan      eventstream.Scanner
	resumable bool              // the app says that it goes on elsewhere
	resumed   bool              // it does already, and has shown an id before
	hold      *eventstream.Hold // what is not whole waits there; nil: it passes as it comes
}

const (
	eventsBusy         uint64 = 1 << iota // its goroutine passes something on
	eventsInEvent                         // an event is open
	eventsEndRequested                    // to be ended at the next blank line
	eventsEnded                           // nothing may be passed on any more
	eventsResumable                       // it can go on elsewhere
	eventsRun          = 32               // shift
)

// errStreamEnded ends an event stream at a blank line.
var errStreamEnded = errors.New("proxy: event stream ended between events")

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
func (e *eventRelay) begin(run uint32, word, later bool, hold *eventstream.Hold) {
	e.scan = eventstream.Scanner{}
	e.start(run, word, later, hold)
}

// again begins with the stream of an answer that goes on where the last one ended.
func (e *eventRelay) resume(run uint32, word bool) {
	e.scan.Again()
	e.hold.Again()
	e.start(run, word, true, e.hold)
}

func (e *eventRelay) start(run uint32, word, later bool, hold *eventstream.Hold) {
	e.resumable, e.resumed, e.hold = word, later, hold
	e.state.Store(uint64(run)<<eventsRun | e.resumableFlag())
}

// keeps returns eventsResumable if the stream can go on elsewhere.
func (e *eventRelay) resumableFlag() uint64 {
	if !e.resumable {
		return 0
	}
	if _, ok := e.scan.ID(); ok || e.resumed && !e.scan.Spoilt() {
		return eventsResumable
	}
	return 0
}

// kept reports whether that of a run can, for who looks from outside.
func (e *eventRelay) isResumable(run uint32) bool {
	now := e.state.Load()
	return uint32(now>>eventsRun) == run && now&eventsResumable != 0
}

// copy passes the events on as they come. As with h1.Writer.Copy the first error is
// the source's, or errStreamEnded, the second the destination's.
func (e *eventRelay) copy(w *h1.Writer, body *h1.Body) (rerr, werr error) {
	if !e.lockWrite() {
		return errStreamEnded, nil
	}
	for {
		part, err := body.Ready()
		if len(part) > 0 {
			over, werr := e.writePart(w, part)
			if werr != nil {
				return nil, werr
			}
			if over {
				return errStreamEnded, w.Flush()
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
		if !e.unlockWrite() {
			return errStreamEnded, nil
		}
		if err := body.Await(); err != nil {
			return err, nil
		}
		if !e.lockWrite() {
			return errStreamEnded, nil
		}
	}
}

// put puts a part of the stream into the buffer, and tells whether it ends with that.
func (e *eventRelay) writePart(w *h1.Writer, part []byte) (over bool, err error) {
	var whole int
	if e.state.Load()&eventsEndRequested == 0 {
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
func (e *eventRelay) lockWrite() bool {
	for {
		old := e.state.Load()
		if old&eventsEnded != 0 {
			return false
		}
		if e.state.CompareAndSwap(old, old|eventsBusy) {
			return true
		}
	}
}

// leave gives it back; false means that the stream ends here.
func (e *eventRelay) unlockWrite() bool {
	for {
		old := e.state.Load()
		next := old&^(eventsBusy|eventsInEvent|eventsResumable) | e.resumableFlag()
		if !e.scan.Between() {
			next |= eventsInEvent
		} else if old&eventsEndRequested != 0 {
			next |= eventsEnded
		}
		if e.state.CompareAndSwap(old, next) {
			return next&eventsEnded == 0
		}
	}
}

// end asks for the end of a run's stream. True means that it is over: its link may be cut.
func (e *eventRelay) requestEnd(run uint32) bool {
	for {
		old := e.state.Load()
		if uint32(old>>eventsRun) != run || old&eventsEnded != 0 {
			return true
		}
		next := old | eventsEndRequested
		if old&(eventsBusy|eventsInEvent) == 0 {
			next |= eventsEnded
		}
		if e.state.CompareAndSwap(old, next) {
			return next&eventsEnded != 0
		}
	}
}
