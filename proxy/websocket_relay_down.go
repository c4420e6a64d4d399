package proxy

import (
	"errors"
	"os"

	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

// copyDown copies data from upstream to downstream until upstream ends, a close frame arrives, or
// the direction parks. parked means that the direction has parked, and that another goroutine will
// continue it.
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
		l.upstream.Consume(len(p))
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
				w.ReleaseEmptyBuffer()
				return false
			}
			p = p[n:]
		}
		if w.Flush() != nil {
			l.clientGone = true
			_ = l.upstream.Abort()
			return false
		}
		w.ReleaseEmptyBuffer()
		l.noteActivity(&l.down.direction)
	}
}

// forwardDown sends bytes of one frame of the app to downstream. It buffers a message until the
// message is complete or exceeds maxHeldMessage, because an incomplete message could not be
// continued by the next relay. Control frames within a message are sent immediately. It returns
// true if nothing may follow.
func (l *webSocketRelay) forwardDown(p []byte) (done bool) {
	switch {
	case l.from.IsControl():
		l.ctl = append(l.ctl, p...)
		if !l.from.BetweenFrames() {
			return false
		}
		done = l.forwardControl()
		l.ctl = l.ctl[:0]
		return done || l.clientGone
	case l.streaming || l.from.BetweenMessages() && len(l.held) == 0:
		l.writeDown(p)
	case l.from.BetweenMessages() || len(l.held)+len(p) > maxHeldMessage:
		l.writeDown(l.held)
		l.writeDown(p)
		l.held = nil
		l.streaming = true
	default:
		l.held = append(l.held, p...)
	}
	l.streaming = l.streaming && !l.from.BetweenMessages()
	return l.clientGone
}

// forwardControl sends a control frame of the app to downstream, except for frames that belong to
// the hand-over. done means that the frame ends the relay.
func (l *webSocketRelay) forwardControl() (done bool) {
	switch l.from.Opcode() {
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
		l.appClose = l.from.CloseCode()
		if l.closeAcknowledged = l.acknowledgesClose(l.appClose); l.closeAcknowledged || l.client && l.appClose == wsession.CloseMoved && !l.clientClosed.Load() {
			return true // the client must not see the answer to a close frame that it has not sent
		}
		l.writeDown(l.ctl)
		l.closeForwarded = true
		return true
	}
	l.writeDown(l.ctl)
	return false
}

// acknowledgesClose reports whether a close frame of the app answers the close frame of this node.
// A frame with another code crossed ours on the way, and is final. But some libraries answer every
// close frame with code 1000, or without a code. Therefore this node sends a ping before its close
// frame. RFC 6455 section 5.5.2 requires a pong. If the pong has not arrived, the app had not yet
// read our close frame, nor all data of the client, when it sent its own close frame.
func (l *webSocketRelay) acknowledgesClose(code int) bool {
	told := int(l.closeSent.Load())
	if told != wsession.CloseMoved {
		return told != 0
	}
	return (l.ponged || !l.app) && (code == told || code == wsession.CloseNormal || code == wsframe.NoCode)
}

// writeDown writes to downstream. After an error it aborts upstream, because the client has gone.
func (l *webSocketRelay) writeDown(p []byte) {
	if l.clientGone || len(p) == 0 {
		return
	}
	if _, err := l.downstream.Writer().Write(p); err != nil {
		l.clientGone = true
		_ = l.upstream.Abort()
	}
}
