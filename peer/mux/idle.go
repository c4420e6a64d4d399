package mux

import (
	"errors"
	"time"
)

const (
	// idleFor is for how long nothing may come by a trunk that another node has dialed before
	// no more lanes are taken by it: who wants more has another one. firstWithin is when its
	// first word has to have come.
	idleTimeout, firstFrameTimeout = time.Minute, 10 * time.Second
	// leaveWithin is how long the dialer has to end a trunk without lanes that takes no more.
	dialerCloseTimeout = 10 * time.Second
)

// errIdle is what a trunk ends with that its dialer leaves to others to end.
var errIdle = errors.New("trunk: nothing has come by it")

// ends is the timer that ends a trunk which nobody uses; stop stops it.
func (s *Session) startIdleTimer() (stop func()) {
	if s.accept == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleTimer = time.AfterFunc(firstFrameTimeout, s.checkIdle)
	return func() { s.idleTimer.Stop() }
}

// judgeIdle ends a trunk by which nothing comes: with a word first, for a lane may be on its way.
// With lanes it goes on until they have ended, without the room that it has needed.
func (s *Session) checkIdle() {
	quiet, heard := s.SinceLastRead()
	s.mu.Lock()
	over := !heard || s.idleGoAway && s.openStreams == 0
	s.shrinkBuffersLocked()
	switch {
	case over, s.idleGoAway: // leave has it judged again
	case quiet < idleTimeout && !s.goingAway:
		s.idleTimer.Reset(idleTimeout - quiet)
	default:
		s.goAwayLocked(s.lastID)
		s.idleGoAway = true
		s.idleTimer.Reset(dialerCloseTimeout)
	}
	s.mu.Unlock()
	if over {
		s.Fail(errIdle)
	}
}
