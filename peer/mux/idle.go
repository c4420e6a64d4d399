package mux

import (
	"errors"
	"time"
)

const (
	// idleTimeout is how long a session of a peer may receive nothing before it accepts no more
	// streams. A peer that needs more streams dials another session.
	idleTimeout = time.Minute
	// firstFrameTimeout is the time limit for the first frame.
	firstFrameTimeout = 10 * time.Second
	// dialerCloseTimeout is how long the dialer has to close an idle session without streams.
	dialerCloseTimeout = 10 * time.Second
)

// errIdle is the error of an idle session that the dialer has not closed in time.
var errIdle = errors.New("mux: session is idle")

// startIdleTimer starts the idle check of a server. stop stops it.
func (s *Session) startIdleTimer() (stop func()) {
	if s.acceptStream == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleTimer = time.AfterFunc(firstFrameTimeout, s.checkIdle)
	return func() { s.idleTimer.Stop() }
}

// checkIdle closes an idle session. It sends a GOAWAY first, because a stream may be on its way. A
// session with streams continues until they have closed, without the buffers that its traffic
// needed.
func (s *Session) checkIdle() {
	sinceRead, hasRead := s.SinceLastRead()
	s.mu.Lock()
	closeNow := !hasRead || s.idleGoAway && s.openStreams == 0
	s.shrinkBuffersLocked()
	switch {
	case closeNow:
	case s.idleGoAway: // streams are open; recordHalfCloseLocked restarts the timer
	case sinceRead < idleTimeout && !s.goingAway:
		s.idleTimer.Reset(idleTimeout - sinceRead)
	default:
		s.goAwayLocked(s.lastID)
		s.idleGoAway = true
		s.idleTimer.Reset(dialerCloseTimeout)
	}
	s.mu.Unlock()
	if closeNow {
		s.Fail(errIdle)
	}
}
