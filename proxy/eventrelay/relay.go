package eventrelay

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"shardway/proxy/eventstream"
	"shardway/proxy/h1"
)

// Relay forwards an event stream (text/event-stream). When the shard moves, the stream ends between two events, so
// that a client that reconnects has not lost part of an event. The stream's goroutine forwards events, while
// another goroutine may request the end. The atomic state decides which of them comes first:
//
//	between ──beginWrite──► busy ──endWrite──► between, or in an event that has not ended
//	   └───RequestEnd───► ended ◄──endWrite, if the end was requested in the meantime and no event is open
//
// A run is the execution of one attempt to serve a request over an upstream connection. One client connection has
// many runs and one Relay, so the state contains the number of the run. This prevents a goroutine that requests the
// end of one run from ending the stream of a later run.
type Relay struct {
	state     atomic.Uint64 // run number (32 bits), flags
	scanner   eventstream.Scanner
	resumable bool                // the app permits another owner to resume the stream
	resumed   bool                // the stream has been resumed, so an event ID has been forwarded
	buffer    *eventstream.Buffer // buffers an incomplete event; nil means that bytes are forwarded as they arrive
}

const (
	eventsBusy         uint64 = 1 << iota // the goroutine of the stream is writing
	eventsInEvent                         // the last forwarded event is incomplete
	eventsEndRequested                    // the stream must end at the next blank line
	eventsEnded                           // nothing more may be forwarded
	eventsResumable                       // another owner can resume the stream

	runNumberShift = 32 // the upper half of the state is the run number
)

// ErrEnded reports that an event stream was ended at a blank line.
var ErrEnded = errors.New("eventrelay: stream ended between events")

// IsEvents reports whether a response is an event stream.
func IsEvents(res *h1.Response) bool {
	const kind = "text/event-stream"
	value := res.Known(h1.FieldContentType)
	if len(value) < len(kind) || !bytes.EqualFold(value[:len(kind)], []byte(kind)) || res.Status() != 200 {
		return false
	}
	rest := bytes.TrimLeft(value[len(kind):], " \t")
	return len(rest) == 0 || rest[0] == ';'
}

// Begin prepares for the first response of a stream. resumable is set if the app permits resumption.
func (e *Relay) Begin(runNumber uint32, resumable, resumed bool, buffer *eventstream.Buffer) {
	e.scanner = eventstream.Scanner{}
	e.start(runNumber, resumable, resumed, buffer)
}

// Resume prepares for a response that continues the stream of the previous one.
func (e *Relay) Resume(runNumber uint32, resumable bool) {
	e.scanner.Resume()
	e.buffer.Resume()
	e.start(runNumber, resumable, true, e.buffer)
}

func (e *Relay) start(runNumber uint32, resumable, resumed bool, buffer *eventstream.Buffer) {
	e.resumable, e.resumed, e.buffer = resumable, resumed, buffer
	e.state.Store(uint64(runNumber)<<runNumberShift | e.resumableFlag())
}

// resumableFlag returns eventsResumable if another owner can resume the stream, and zero otherwise. A resumed stream
// has already forwarded an event ID, so this response needs none.
func (e *Relay) resumableFlag() uint64 {
	_, hasID := e.scanner.ID()
	hasEarlierID := e.resumed && !e.scanner.HasInvalidID()
	if e.resumable && (hasID || hasEarlierID) {
		return eventsResumable
	}
	return 0
}

// CanResume reports whether another owner can resume the stream after the events that were forwarded
// so far. Only the goroutine that forwards the stream may call it.
func (e *Relay) CanResume() bool { return e.resumableFlag() != 0 }

// LastEventID returns the id of the last event that was forwarded. Only the goroutine that forwards
// the stream may call it.
func (e *Relay) LastEventID() []byte {
	id, _ := e.scanner.ID()
	return id
}

// IsResumable reports whether another owner can resume the stream of a run. Any goroutine may call
// it.
func (e *Relay) IsResumable(runNumber uint32) bool {
	state := e.state.Load()
	return uint32(state>>runNumberShift) == runNumber && state&eventsResumable != 0
}

// Copy forwards events as they arrive. As in h1.Writer.Copy, readErr is an error of the source or
// ErrEnded, and writeErr is an error of the destination.
func (e *Relay) Copy(writer *h1.Writer, body *h1.Body) (readErr, writeErr error) {
	if !e.beginWrite() {
		return ErrEnded, nil
	}
	for {
		part, err := body.TakeAvailable()
		if len(part) > 0 {
			ended, writeErr := e.bufferPart(writer, part)
			if writeErr != nil {
				return nil, writeErr
			}
			if ended {
				return ErrEnded, writer.Flush()
			}
		}
		switch {
		case errors.Is(err, io.EOF) && e.buffer != nil:
			return nil, e.buffer.End(writer)
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		case len(part) > 0:
			continue
		}
		if err := writer.Flush(); err != nil {
			return nil, err
		}
		writer.ReleaseEmptyBuffer()
		if !e.endWrite() {
			return ErrEnded, nil
		}
		if err := body.AwaitData(); err != nil {
			return err, nil
		}
		if !e.beginWrite() {
			return ErrEnded, nil
		}
	}
}

// WritePart sends a part of the stream immediately. It returns ErrEnded if the stream ends with this
// part.
func (e *Relay) WritePart(writer *h1.Writer, part []byte) error {
	if !e.beginWrite() {
		return ErrEnded
	}
	ended, err := e.bufferPart(writer, part)
	if err != nil {
		return err
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	if ended || !e.endWrite() {
		return ErrEnded
	}
	return nil
}

// bufferPart writes a part of the stream into the buffer of writer, without sending it. If the end of the
// stream was requested and an event ends in the part, bufferPart omits the rest and returns ended.
func (e *Relay) bufferPart(writer *h1.Writer, part []byte) (ended bool, err error) {
	var completeLen int
	if e.state.Load()&eventsEndRequested == 0 {
		completeLen = e.scanner.Next(part)
	} else if n, ends := e.scanner.NextBoundary(part); ends {
		part, completeLen, ended = part[:n], n, true
	}
	if e.buffer != nil {
		return ended, e.buffer.Write(writer, part, completeLen)
	}
	_, err = writer.Write(part)
	return ended, err
}

// beginWrite marks the stream as busy, so that RequestEnd does not end it during a write. If it returns false, the
// stream has already ended and the caller must not write.
func (e *Relay) beginWrite() bool {
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

// endWrite ends the write that beginWrite has begun. If RequestEnd was called in the meantime and the last event is
// complete, endWrite ends the stream and returns false; the caller must not write again.
func (e *Relay) endWrite() bool {
	for {
		old := e.state.Load()
		next := old&^(eventsBusy|eventsInEvent|eventsResumable) | e.resumableFlag()
		if !e.scanner.Between() {
			next |= eventsInEvent
		} else if old&eventsEndRequested != 0 {
			next |= eventsEnded
		}
		if e.state.CompareAndSwap(old, next) {
			return next&eventsEnded == 0
		}
	}
}

// RequestEnd requests the end of the stream of a run. It returns true if the stream has ended, so
// that the caller may abort its upstream connection.
func (e *Relay) RequestEnd(runNumber uint32) bool {
	for {
		old := e.state.Load()
		if uint32(old>>runNumberShift) != runNumber || old&eventsEnded != 0 {
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
