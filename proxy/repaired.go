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
	next      [2]atomic.Int64 // when the next line may be written, by the clock of the server
	muteUntil [2]atomic.Int64 // number of messages since the last line that were not logged
}

const repairLogEvery = 10 * time.Second

// Kinds of lines.
const (
	loggedHead = iota
	loggedTrailers
)

// allow reports whether a line of a kind may be written now. suppressed is the number of messages
// since the last line that were not logged.
func (repairs *repairLog) allow(kind int, now time.Duration) (suppressed int64, ok bool) {
	next := repairs.next[kind].Load()
	if int64(now) < next || !repairs.next[kind].CompareAndSwap(next, int64(now+repairLogEvery)) {
		repairs.muteUntil[kind].Add(1)
		return 0, false
	}
	return repairs.muteUntil[kind].Swap(0), true
}

// logRepairs logs that the header of a response was repaired.
func (r reply) logRepairs(res *h1.Response) {
	description := res.Repairs()
	if description == "" {
		return
	}
	if n, ok := r.server.repairs.allow(loggedHead, r.server.clock.Now()); ok {
		r.server.options.Log.Warn().Str("repaired", description).Int("status", res.Status()).Bytes("path", r.req.Path()).Int64("suppressed", n).
			Msg("malformed response repaired")
	}
}

// trailersDropped logs that trailer fields of a request or response were dropped.
func (state *requestState) trailersDropped(body *h1.Body, message string) {
	count, first := body.DroppedTrailers()
	if count == 0 {
		return
	}
	if n, ok := state.server.repairs.allow(loggedTrailers, state.server.clock.Now()); ok {
		state.server.options.Log.Warn().Str("message_type", message).Int("fields", count).Str("first", first).Bytes("path", state.req.Path()).Int64("suppressed", n).
			Msg("trailer fields dropped")
	}
}
