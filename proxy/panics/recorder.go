// Package panics logs and counts panics of the proxy that occur while it serves requests. Such a panic
// is always a bug. The node continues to run.
//
// Each goroutine that serves a request recovers its own panics, and records them in the Recorder of the
// server.
package panics

import (
	"errors"
	"runtime/debug"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// errPanicked replaces the error of an operation that panicked.
var errPanicked = errors.New("proxy: panicked")

// Recorder logs and counts panics. Any goroutine may use it.
type Recorder struct {
	Log   *zerolog.Logger
	Count *atomic.Uint64
}

// Record records a panic with the given value. The log line contains the stack of the caller.
func (recorder *Recorder) Record(value any) {
	recorder.Count.Add(1)
	recorder.Log.Error().Any("panic", value).Bytes("stack", debug.Stack()).Msg("request panicked, please report this")
}

// Send calls send, which sends a message body. It converts a panic into an error.
func (recorder *Recorder) Send(send func() error) (err error) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			recorder.Record(panicValue)
			err = errPanicked
		}
	}()
	return send()
}

// Copy calls direction, which copies one direction of a tunnel. whole is the result of direction, or
// false after a panic.
func (recorder *Recorder) Copy(direction func() bool) (whole bool) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			recorder.Record(panicValue)
			whole = false
		}
	}()
	return direction()
}
