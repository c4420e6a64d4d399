package h1

import "errors"

// Error is the error of a message that violates HTTP/1 or exceeds a limit. The caller must close
// the connection, because the start of the next message is unknown. Each Error is a package-level
// variable; use errors.As to detect one.
type Error struct {
	status int
	reason string
}

// Error returns the reason with the package's prefix.
func (e *Error) Error() string { return "h1: " + e.reason }

// Status returns the status code for the client: 400, 405, 413, 414, 417, 431 or 505 for
// requests, and 502 for responses of the upstream.
func (e *Error) Status() int { return e.status }

// Reason returns the cause in a few words. It never quotes the message, so it can be shown to a
// client.
func (e *Error) Reason() string { return e.reason }

// Errors that do not concern the bytes of a message.
var (
	// ErrStopped reports that StopWaiting or StopRead ended a read.
	ErrStopped = errors.New("h1: stopped")
	// ErrUnsolicitedData reports that a connection had data to read, or had ended, before a request
	// was sent on it.
	ErrUnsolicitedData = errors.New("h1: unsolicited data, or the end of the connection, before the request")
	// ErrUnsent reports that the socket has not accepted all data of a nonblocking write
	// (Writer.SetNonblocking).
	ErrUnsent = errors.New("h1: partial write")
	// ErrParkRequested reports that RequestPark ended a wait for a request.
	ErrParkRequested = errors.New("h1: parking requested")
	// ErrPaused reports that PauseRead ended a read.
	ErrPaused = errors.New("h1: paused")
	// ErrUnfinished reports that a Writer was closed before the declared length was written.
	ErrUnfinished = errors.New("h1: body shorter than declared")
	// ErrOverrun reports a write that exceeds the declared length.
	ErrOverrun = errors.New("h1: body longer than declared")
	// ErrDrainLimit reports that the rest of a body exceeds the limit of Drain.
	ErrDrainLimit = errors.New("h1: the rest of the body exceeds the limit")
)
