package mux

import (
	"errors"
	"time"
)

const (
	// idleFor is for how long nothing may come by a trunk that another node has dialed before
	// no more lanes are taken by it: who wants more has another one. firstWithin is when its
	// first word has to have come.
	idleFor, firstWithin = time.Minute, 10 * time.Second
	// leaveWithin is how long the dialer has to end a trunk without lanes that takes no more.
	leaveWithin = 10 * time.Second
)

// errIdle is what a trunk ends with that its dialer leaves to others to end.
var errIdle = errors.New("trunk: nothing has come by it")

// ends is the timer that ends a trunk which nobody uses; stop stops it.
func (t *Trunk) ends() (stop func()) {
	if t.give == nil {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = time.AfterFunc(firstWithin, t.judgeIdle)
	return func() { t.idle.Stop() }
}

// judgeIdle ends a trunk by which nothing comes: with a word first, for a lane may be on its way.
// With lanes it goes on until they have ended, without the room that it has needed.
func (t *Trunk) judgeIdle() {
	quiet, heard := t.Quiet()
	t.mu.Lock()
	over := !heard || t.tired && t.live == 0
	t.trim()
	switch {
	case over, t.tired: // leave has it judged again
	case quiet < idleFor && !t.parts:
		t.idle.Reset(idleFor - quiet)
	default:
		t.part(t.last)
		t.tired = true
		t.idle.Reset(leaveWithin)
	}
	t.mu.Unlock()
	if over {
		t.Fail(errIdle)
	}
}
