package wsrelay

import (
	"math"
	"time"
)

// closeReplyTimeout is how long an endpoint that has received a close frame may be silent before it
// answers. RFC 6455 section 5.5.1 requires a response as soon as practical, no later than after the
// current message, so silence is a failure. Section 7.1.1 then requires the server to close the
// connection. Apps and clients usually wait 5 to 30 s. Without this limit, a client that sent a
// close frame and disappeared would occupy its relay for IdleTimeout, because nothing reads from
// the client after its close frame.
const closeReplyTimeout = 10 * time.Second

// activeNow is the value of direction.lastActivity while the direction is copying data.
const activeNow = math.MaxInt64

// noteActivity records that a direction has copied all available data.
func (relay *Relay) noteActivity(dir *direction) {
	dir.lastActivity.Store(int64(relay.shared.Clock.Now()))
}

// closeReplyWait limits the wait for the response to a close frame that was sent to an endpoint.
type closeReplyWait struct {
	relay     *Relay
	source    *direction    // the direction in which the response is expected
	startedAt time.Duration // start, by the clock of the server
	latestEnd time.Duration // latest end of the wait, even if other data arrives
	onTimeout func()
	timer     *time.Timer
}

// awaitCloseReply calls onTimeout if the response does not arrive in time. The endpoint from which
// source copies must not be silent for closeReplyTimeout, and must answer within IdleTimeout. While
// the direction is copying data, its source does not count as silent, because it is the receiver
// that is slow. onTimeout must not block, and must have no effect after the relay has ended.
func (relay *Relay) awaitCloseReply(source *direction, onTimeout func()) *closeReplyWait {
	now, idleTimeout := relay.shared.Clock.Now(), relay.shared.IdleTimeout()
	wait := &closeReplyWait{relay: relay, source: source, startedAt: now, latestEnd: now + idleTimeout, onTimeout: onTimeout}
	wait.timer = time.AfterFunc(math.MaxInt64, wait.check) // timer must be set before check runs
	wait.timer.Reset(min(closeReplyTimeout, idleTimeout))
	return wait
}

func (wait *closeReplyWait) check() {
	now, silentSince := wait.relay.shared.Clock.Now(), wait.startedAt
	switch lastActivity := wait.source.lastActivity.Load(); lastActivity {
	case activeNow:
		silentSince = now
	default:
		silentSince = max(silentSince, time.Duration(lastActivity))
	}
	if deadline := min(silentSince+closeReplyTimeout, wait.latestEnd); deadline > now && !wait.relay.hasEnded() {
		wait.timer.Reset(deadline - now)
		return
	}
	wait.onTimeout()
}
