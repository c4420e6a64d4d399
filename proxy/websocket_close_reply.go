package proxy

import (
	"math"
	"time"
)

// closeReplyTimeout is for how long who has got a Close may say nothing before it answers that. RFC 6455
// section 5.5.1 wants the answer as soon as practical, and behind the message that is being sent
// at most, so silence is none; section 7.1.1 has the server end the connection. Apps and clients
// give each other 5 to 30 s for it. Without a bound of that size a client that has said Close and
// has gone would keep its leg for IdleTimeout, as nobody reads what comes behind a Close.
const closeReplyTimeout = 10 * time.Second

// activeNow is in half.spoke while its direction passes something on.
const activeNow = math.MaxInt64

// noteActivity notes that a direction has passed on what there was.
func (l *webSocketRelay) noteActivity(h *direction) { h.lastActivity.Store(int64(l.s.clock.now())) }

// closeReplyWait waits for the answer to a Close that has been passed on.
type closeReplyWait struct {
	l     *webSocketRelay
	from  *direction    // the direction by which the answer comes
	begun time.Duration // by the server's clock
	most  time.Duration // likewise: the answer is waited for until then, whatever else is said
	end   func()
	timer *time.Timer
}

// awaitCloseReply has end called, which does not block, once the end from which a direction reads has
// said nothing for closeReplyTimeout, or has not answered within IdleTimeout, unless the leg is over. A
// direction that passes on what it has is not silent: it is the other end that takes its time.
func (l *webSocketRelay) awaitCloseReply(from *direction, end func()) *closeReplyWait {
	now, idle := l.s.clock.now(), l.s.set.Load().IdleTimeout
	p := &closeReplyWait{l: l, from: from, begun: now, most: now + idle, end: end}
	p.timer = time.AfterFunc(math.MaxInt64, p.look) // it is known here before it is over
	p.timer.Reset(min(closeReplyTimeout, idle))
	return p
}

func (p *closeReplyWait) look() {
	now, since := p.l.s.clock.now(), p.begun
	switch spoke := p.from.lastActivity.Load(); spoke {
	case activeNow:
		since = now
	default:
		since = max(since, time.Duration(spoke))
	}
	if until := min(since+closeReplyTimeout, p.most); until > now && !p.l.isOver() {
		p.timer.Reset(until - now)
		return
	}
	p.end()
}
