package h1

import "errors"

// Error reports bytes that break the rules of HTTP/1 or a limit. The
// connection they came on must be closed after it: nothing that follows can be
// trusted to start a message. Errors of this type are constants; compare them
// with errors.As.
type Error struct {
	status int
	reason string
}

// Error returns the reason with the package's prefix.
func (e *Error) Error() string { return "h1: " + e.reason }

// Status returns the status to answer with: 400, 405, 413, 414, 417, 431 or
// 505 for requests, 502 for answers from upstream.
func (e *Error) Status() int { return e.status }

// Reason returns what is wrong in a few words, fit to be shown to a client: it
// never quotes the message.
func (e *Error) Reason() string { return e.reason }

// Errors that are not about the bytes of a message.
var (
	// ErrStopped reports a read that StopIdle or StopRead ended.
	ErrStopped = errors.New("h1: stopped")
	// ErrUnsolicitedData reports a connection that has something to read, or has ended,
	// before it was asked for anything.
	ErrUnsolicitedData = errors.New("h1: not quiet")
	// ErrUnsent reports a message of which the socket has not taken all at once, though
	// nobody waits for it (Writer.SetNonblocking).
	ErrUnsent = errors.New("h1: not all sent at once")
	// ErrParkRequested reports a wait for a request that RequestPark ended.
	ErrParkRequested = errors.New("h1: roused")
	// ErrPaused reports a read that PauseRead ended.
	ErrPaused = errors.New("h1: paused")
	// ErrUnfinished reports a Writer closed short of its declared length.
	ErrUnfinished = errors.New("h1: body shorter than declared")
	// ErrOverrun reports a write past the declared length.
	ErrOverrun = errors.New("h1: body longer than declared")
	// ErrDrainLimit reports a body longer than Drain was willing to read.
	ErrDrainLimit = errors.New("h1: too much left of the body")
)
