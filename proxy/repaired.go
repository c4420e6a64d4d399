package proxy

import (
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// repairLog logs repairs of messages (repair.go and trailer.go of h1). It writes no more than one
// line of each kind per repairLogEvery, because an app that sends one invalid message usually sends
// many.
type repairLog struct {
	// Both arrays are indexed by the kind of the line: loggedHeader or loggedTrailers.

	nextAllowed [2]atomic.Int64 // earliest time of the next line, by the clock of the server
	suppressed  [2]atomic.Int64 // number of messages that went unlogged since the last line
}

// repairLogEvery is the minimum interval between two lines of one kind.
const repairLogEvery = 10 * time.Second

// Kinds of log lines. Each kind has its own interval, so one kind does not suppress another.
const (
	loggedHeader = iota
	loggedTrailers
)

// mayLog reports whether a line of this kind may be written now. suppressed is the number of
// messages that went unlogged since the last line.
func (l *repairLog) mayLog(kind int, now time.Duration) (suppressed int64, ok bool) {
	nextAllowed := l.nextAllowed[kind].Load()
	isDue := int64(now) >= nextAllowed && l.nextAllowed[kind].CompareAndSwap(nextAllowed, int64(now+repairLogEvery))
	if !isDue {
		l.suppressed[kind].Add(1)
		return 0, false
	}
	return l.suppressed[kind].Swap(0), true
}

// logRepairs logs that the header of a response was repaired.
func (reply reply) logRepairs(res *h1.Response) {
	description := res.Repairs()
	if description == "" {
		return
	}
	if suppressed, ok := reply.server.repairLog.mayLog(loggedHeader, reply.server.clock.Now()); ok {
		reply.server.options.Log.Warn().Str("repaired", description).Int("status", res.Status()).Bytes("path", reply.req.Path()).Int64("suppressed", suppressed).
			Msg("malformed response repaired")
	}
}

// logDroppedTrailers logs that trailer fields of a message were dropped. messageType is "request" or
// "response".
func (state *requestState) logDroppedTrailers(body *h1.Body, messageType string) {
	count, first := body.DroppedTrailers()
	if count == 0 {
		return
	}
	if suppressed, ok := state.server.repairLog.mayLog(loggedTrailers, state.server.clock.Now()); ok {
		state.server.options.Log.Warn().Str("message_type", messageType).Int("fields", count).Str("first", first).Bytes("path", state.req.Path()).Int64("suppressed", suppressed).
			Msg("trailer fields dropped")
	}
}
