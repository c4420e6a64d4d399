package proxy

import (
	"errors"
	"os"

	"shardway/proxy/wsframe"
)

// copyDown carries what far sends, until that ends or there is a Close, or it has parked.
func (l *webSocketRelay) copyDown() (parked bool) {
	w := l.downstream.Writer()
	for {
		p, err := l.upstream.PeekFor(l.down.parkDelay)
		switch {
		case l.down.parkDelay > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			if l.park(&l.down.direction, l.upstream) {
				return true
			}
			continue
		case err != nil:
			l.upstreamErr = err
			return false
		}
		l.down.lastActivity.Store(activeNow)
		l.upstream.Take(len(p))
		for len(p) > 0 {
			n, err := l.from.Step(p)
			if err != nil {
				l.appInvalid = true
				return false
			}
			if done := l.forwardDown(p[:n]); done {
				if w.Flush() != nil {
					l.clientGone = true
				}
				w.Idle()
				return false
			}
			p = p[n:]
		}
		if w.Flush() != nil {
			l.clientGone = true
			_ = l.upstream.Cut()
			return false
		}
		w.Idle()
		l.noteActivity(&l.down.direction)
	}
}

// forwardDown passes on bytes of one frame of the app: those of a message when it is whole,
// or too long to be held. What is between, as the control frames are that stand inside a
// message, goes at once. True means that nothing comes after it.
func (l *webSocketRelay) forwardDown(p []byte) (done bool) {
	switch {
	case l.from.Control():
		l.ctl = append(l.ctl, p...)
		if !l.from.Between() {
			return false
		}
		done = l.forwardControl()
		l.ctl = l.ctl[:0]
		return done || l.clientGone
	case l.streaming || l.from.Whole() && len(l.held) == 0:
		l.writeDown(p)
	case l.from.Whole() || len(l.held)+len(p) > heldMessage:
		l.writeDown(l.held)
		l.writeDown(p)
		l.held = nil
		l.streaming = true
	default:
		l.held = append(l.held, p...)
	}
	l.streaming = l.streaming && !l.from.Whole()
	return l.clientGone
}

// forwardControl passes on a control frame of the app, or what ends the leg.
func (l *webSocketRelay) forwardControl() (done bool) {
	switch l.from.Op() {
	case opEndCode:
		if word := l.from.Payload(); len(word) > 0 {
			l.ownerCode = word[0]
		}
		return true
	case wsframe.OpPong:
		if l.app && l.closeSent.Load() != 0 && string(l.from.Payload()) == pingMoved {
			l.ponged = true
			return false
		}
	case wsframe.OpClose:
		l.appClose = l.from.Code()
		if l.closeAcknowledged = l.acknowledgesClose(l.appClose); l.closeAcknowledged || l.client && l.appClose == int(closeMoved) && !l.clientClosed.Load() {
			return true // it is between us and the app
		}
		l.writeDown(l.ctl)
		l.closeForwarded = true
		return true
	}
	l.writeDown(l.ctl)
	return false
}

// acknowledgesClose reports whether a Close of the app is the answer to ours. One with a code of its
// own has crossed ours, and is final; but some libraries answer any Close with 1000, or with
// none. So before our Close goes a Ping: without its Pong (RFC 6455 section 5.5.2 demands one)
// the app had not read so far when it said Close, nor all that the client had sent.
func (l *webSocketRelay) acknowledgesClose(code int) bool {
	told := int(l.closeSent.Load())
	if told != int(closeMoved) {
		return told != 0
	}
	return (l.ponged || !l.app) && (code == told || code == closeNormal || code == wsframe.NoCode)
}

// writeDown writes to near.
func (l *webSocketRelay) writeDown(p []byte) {
	if l.clientGone || len(p) == 0 {
		return
	}
	if _, err := l.downstream.Writer().Write(p); err != nil {
		l.clientGone = true
		_ = l.upstream.Cut()
	}
}
