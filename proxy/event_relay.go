package proxy

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"shardway/proxy/eventstream"
	"shardway/proxy/h1"
)

// eventRelay passes on an event stream (text/event-stream). When the shard moves, the stream ends
// between two events, so that a client that reconnects has not lost half an event. Its goroutine
// passes events on; another goroutine may request the end. One atomic word decides which of them
// comes first:
//
//	between ──lockWrite──► busy ──unlockWrite──► between, or in an event that has not ended
//	   └───requestEnd───► ended ◄──unlockWrite, if the end was requested meanwhile and no event is open
//
// The word contains the number of the run. A goroutine that looked at one run, and is late, does
// not end the stream of the next run.
type eventRelay struct {
	state     atomic.Uint64 // run number (32 bits), flags
	scan      eventstream.Scanner
	resumable bool                // the app permits resumption elsewhere
	resumed   bool                // the stream has been resumed, and has passed on an event id before
	buffer    *eventstream.Buffer // buffers an incomplete event; nil means that bytes are passed on as they arrive
}

const (
	eventsBusy         uint64 = 1 << iota // the goroutine of the stream writes
	eventsInEvent                         // an event has begun and not ended
	eventsEndRequested                    // end at the next blank line
	eventsEnded                           // nothing may be passed on any more
	eventsResumable                       // the stream can be resumed elsewhere
	eventsRun          = 32               // shift
)

// errStreamEnded ends an event stream at a blank line.
var errStreamEnded = errors.New("proxy: event stream ended between events")

// isEvents reports whether a response is an event stream.
func isEvents(res *h1.Response) bool {
	const kind = "text/event-stream"
	v := res.Known(h1.FieldContentType)
	if len(v) < len(kind) || !bytes.EqualFold(v[:len(kind)], []byte(kind)) || res.Status() != 200 {
		return false
	}
	rest := bytes.TrimLeft(v[len(kind):], " \t")
	return len(rest) == 0 || rest[0] == ';'
}

// begin begins with the stream of the first response.
func (e *eventRelay) begin(run uint32, word, later bool, hold *eventstream.Buffer) {
	e.scan = eventstream.Scanner{}
	e.start(run, word, later, hold)
}

// resume begins with the stream of a response that continues the previous one.
func (e *eventRelay) resume(run uint32, word bool) {
	e.scan.Resume()
	e.buffer.Resume()
	e.start(run, word, true, e.buffer)
}

func (e *eventRelay) start(run uint32, word, later bool, hold *eventstream.Buffer) {
	e.resumable, e.resumed, e.buffer = word, later, hold
	e.state.Store(uint64(run)<<eventsRun | e.resumableFlag())
}

// resumableFlag returns eventsResumable if the stream can be resumed elsewhere, and zero otherwise.
func (e *eventRelay) resumableFlag() uint64 {
	if !e.resumable {
		return 0
	}
	if _, ok := e.scan.ID(); ok || e.resumed && !e.scan.HasInvalidID() {
		return eventsResumable
	}
	return 0
}

// isResumable reports whether the stream of a run can be resumed elsewhere. Any goroutine may call
// it.
func (e *eventRelay) isResumable(run uint32) bool {
	now := e.state.Load()
	return uint32(now>>eventsRun) == run && now&eventsResumable != 0
}

// copy passes events on as they arrive. As with h1.Writer.Copy, the first error is that of the
// source, or errStreamEnded, and the second that of the destination.
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
		case errors.Is(err, io.EOF) && e.buffer != nil:
			return nil, e.buffer.End(w)
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

// writePart writes a part of the stream to the buffer. over means that the stream ends with it.
func (e *eventRelay) writePart(w *h1.Writer, part []byte) (over bool, err error) {
	var whole int
	if e.state.Load()&eventsEndRequested == 0 {
		whole = e.scan.Next(part)
	} else if n, ends := e.scan.NextBoundary(part); ends {
		part, whole, over = part[:n], n, true
	}
	if e.buffer != nil {
		return over, e.buffer.Write(w, part, whole)
	}
	_, err = w.Write(part)
	return over, err
}

// lockWrite acquires the right to write. It reports false if the stream has ended.
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

// unlockWrite releases the right to write. It reports false if the stream ends here.
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

// requestEnd requests the end of the stream of a run. It returns true if the stream has ended, so
// that its upstream connection may be aborted.
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
