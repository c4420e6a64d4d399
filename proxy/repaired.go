package proxy

import (
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// repairLog logs what was repaired in messages (h1's repair.go, trailer.go), a line of each kind at
// most every repairLogEvery: an app that does it once does it always.
type repairLog struct {
	next [2]atomic.Int64 // when the next line may be written, by the server's clock
	mute [2]atomic.Int64 // messages since the last line of which nothing was logged
}

const repairLogEvery = 10 * time.Second

// Kinds of lines.
const (
	loggedHead = iota
	loggedTrailers
)

// speaks reports whether a line of that kind may be written now, and how many were not since the
// last one.
func (g *repairLog) speaks(kind int, now time.Duration) (suppressed int64, ok bool) {
	next := g.next[kind].Load()
	if int64(now) < next || !g.next[kind].CompareAndSwap(next, int64(now+repairLogEvery)) {
		g.mute[kind].Add(1)
		return 0, false
	}
	return g.mute[kind].Swap(0), true
}

// repaired logs that the head of the app's response was repaired.
func (r reply) repaired(res *h1.Response) {
	what := res.Repaired()
	if what == "" {
		return
	}
	if n, ok := r.s.repairs.speaks(loggedHead, r.s.clock.now()); ok {
		r.s.o.Log.Warn().Str("repaired", what).Int("status", res.Status()).Bytes("path", r.req.Path()).Int64("suppressed", n).
			Msg("malformed response repaired")
	}
}

// trailersDropped logs that trailer fields of a request or response were dropped.
func (a *requestState) trailersDropped(body *h1.Body, message string) {
	count, first := body.DroppedTrailers()
	if count == 0 {
		return
	}
	if n, ok := a.s.repairs.speaks(loggedTrailers, a.s.clock.now()); ok {
		a.s.o.Log.Warn().Str("message_type", message).Int("fields", count).Str("first", first).Bytes("path", a.req.Path()).Int64("suppressed", n).
			Msg("trailer fields dropped")
	}
}
