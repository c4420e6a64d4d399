package proxy

import (
	"errors"
	"os"

	"shardway/proxy/wsframe"
)

// downward carries what far sends, until that ends or there is a Close, or it has parked.
func (l *leg) downward() (parked bool) {
	w := l.near.Writer()
	for {
		p, err := l.far.PeekFor(l.down.lag)
		switch {
		case l.down.lag > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			if l.park(&l.down.half, l.far) {
				return true
			}
			continue
		case err != nil:
			l.farErr = err
			return false
		}
		l.down.spoke.Store(passing)
		l.far.Take(len(p))
		for len(p) > 0 {
			n, err := l.from.Step(p)
			if err != nil {
				l.appBad = true
				return false
			}
			if done := l.passDown(p[:n]); done {
				if w.Flush() != nil {
					l.nearGone = true
				}
				w.Idle()
				return false
			}
			p = p[n:]
		}
		if w.Flush() != nil {
			l.nearGone = true
			_ = l.far.Cut()
			return false
		}
		w.Idle()
		l.spoken(&l.down.half)
	}
}

// passDown passes on bytes of one frame of the app: those of a message when it is whole,
// or too long to be held. What is between, as the control frames are that stand inside a
// message, goes at once. True means that nothing comes after it.
func (l *leg) passDown(p []byte) (done bool) {
	switch {
	case l.from.Control():
		l.ctl = append(l.ctl, p...)
		if !l.from.Between() {
			return false
		}
		done = l.passControl()
		l.ctl = l.ctl[:0]
		return done || l.nearGone
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
	return l.nearGone
}

// passControl passes on a control frame of the app, or what ends the leg.
func (l *leg) passControl() (done bool) {
	switch l.from.Op() {
	case opWord:
		if word := l.from.Payload(); len(word) > 0 {
			l.word = word[0]
		}
		return true
	case wsframe.OpPong:
		if l.app && l.told.Load() != 0 && string(l.from.Payload()) == pingMoved {
			l.ponged = true
			return false
		}
	case wsframe.OpClose:
		l.appClose = l.from.Code()
		if l.handed = l.answers(l.appClose); l.handed || l.client && l.appClose == int(closeMoved) && !l.closed.Load() {
			return true // it is between us and the app
		}
		l.writeDown(l.ctl)
		l.passed = true
		return true
	}
	l.writeDown(l.ctl)
	return false
}

// answers reports whether a Close of the app is the answer to ours. One with a code of its
// own has crossed ours, and is final; but some libraries answer any Close with 1000, or with
// none. So before our Close goes a Ping: without its Pong (RFC 6455 section 5.5.2 demands one)
// the app had not read so far when it said Close, nor all that the client had sent.
func (l *leg) answers(code int) bool {
	told := int(l.told.Load())
	if told != int(closeMoved) {
		return told != 0
	}
	return (l.ponged || !l.app) && (code == told || code == closeNormal || code == wsframe.NoCode)
}

// writeDown writes to near.
func (l *leg) writeDown(p []byte) {
	if l.nearGone || len(p) == 0 {
		return
	}
	if _, err := l.near.Writer().Write(p); err != nil {
		l.nearGone = true
		_ = l.far.Cut()
	}
}
