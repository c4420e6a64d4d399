package proxy

import (
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// repairLog logs repairs of messages (repair.go and trailer.go of h1). It writes at most one line
// of each kind per repairLogEvery, because an app that sends one invalid message usually sends
// many.
type repairLog struct {
	// The indexes are loggedHead and loggedTrailers.

	nextAllowed [2]atomic.Int64 // when the next line may be written, by the clock of the server
	suppressed  [2]atomic.Int64 // number of messages since the last line that were not logged
}

// repairLogEvery is the minimum interval between two lines of one kind.
const repairLogEvery = 10 * time.Second

// Kinds of lines.
const (
	loggedHead = iota
	loggedTrailers
)

// allow reports whether a line of a kind may be written now. suppressed is the number of messages
// since the last line that were not logged.
func (repairs *repairLog) allow(kind int, now time.Duration) (suppressed int64, ok bool) {
	nextAllowed := repairs.nextAllowed[kind].Load()
	mayLog := int64(now) >= nextAllowed && repairs.nextAllowed[kind].CompareAndSwap(nextAllowed, int64(now+repairLogEvery))
	if !mayLog {
		repairs.suppressed[kind].Add(1)
		return 0, false
	}
	return repairs.suppressed[kind].Swap(0), true
}

// logRepairs logs that the header of a response was repaired.
func (reply reply) logRepairs(res *h1.Response) {
	description := res.Repairs()
	if description == "" {
		return
	}
	if n, ok := reply.server.repairs.allow(loggedHead, reply.server.clock.Now()); ok {
		reply.server.options.Log.Warn().Str("repaired", description).Int("status", res.Status()).Bytes("path", reply.req.Path()).Int64("suppressed", n).
			Msg("malformed response repaired")
	}
}

// logDroppedTrailers logs that trailer fields of a message were dropped. message is "request" or
// "response".
func (state *requestState) logDroppedTrailers(body *h1.Body, message string) {
	count, first := body.DroppedTrailers()
	if count == 0 {
		return
	}
	if n, ok := state.server.repairs.allow(loggedTrailers, state.server.clock.Now()); ok {
		state.server.options.Log.Warn().Str("message_type", message).Int("fields", count).Str("first", first).Bytes("path", state.req.Path()).Int64("suppressed", n).
			Msg("trailer fields dropped")
	}
}
