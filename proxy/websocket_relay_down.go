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
			if l.parkDirection(&l.down.direction, l.upstream) {
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
			n, err := l.downScanner.Step(p)
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
	case l.downScanner.IsControl():
		l.heldControl = append(l.heldControl, p...)
		if !l.downScanner.BetweenFrames() {
			return false
		}
		done = l.forwardControl()
		l.heldControl = l.heldControl[:0]
		return done || l.clientGone
	case l.streaming || l.downScanner.BetweenMessages() && len(l.heldMessage) == 0:
		l.writeDown(p)
	case l.downScanner.BetweenMessages() || len(l.heldMessage)+len(p) > maxHeldMessage:
		l.writeDown(l.heldMessage)
		l.writeDown(p)
		l.heldMessage = nil
		l.streaming = true
	default:
		l.heldMessage = append(l.heldMessage, p...)
	}
	l.streaming = l.streaming && !l.downScanner.BetweenMessages()
	return l.clientGone
}

// forwardControl sends a control frame of the app to downstream, except for frames that belong to
// the hand-over. done means that the frame ends the relay.
func (l *webSocketRelay) forwardControl() (done bool) {
	switch l.downScanner.Opcode() {
	case opEndCode:
		if code := l.downScanner.Payload(); len(code) > 0 {
			l.ownerCode = code[0]
		}
		return true
	case wsframe.OpPong:
		if l.toApp && l.closeSent.Load() != 0 && string(l.downScanner.Payload()) == pingMoved {
			l.pongReceived = true
			return false
		}
	case wsframe.OpClose:
		l.appClose = l.downScanner.CloseCode()
		if l.closeAcknowledged = l.acknowledgesClose(l.appClose); l.closeAcknowledged || l.toClient && l.appClose == wsession.CloseMoved && !l.clientClosed.Load() {
			return true // the client must not see the response to a close frame that it has not sent
		}
		l.writeDown(l.heldControl)
		l.closeForwarded = true
		return true
	}
	l.writeDown(l.heldControl)
	return false
}

// acknowledgesClose reports whether a close frame of the app answers the close frame of this node.
// A frame with another code crossed ours on the way, and is final. But some libraries answer every
// close frame with code 1000, or without a code. Therefore this node sends a ping before its close
// frame. RFC 6455 section 5.5.2 requires a pong. If the pong has not arrived, the app had not yet
// read our close frame, nor all data of the client, when it sent its own close frame.
func (l *webSocketRelay) acknowledgesClose(code int) bool {
	sentCode := int(l.closeSent.Load())
	if sentCode != wsession.CloseMoved {
		return sentCode != 0
	}
	return (l.pongReceived || !l.toApp) && (code == sentCode || code == wsession.CloseNormal || code == wsframe.NoCode)
}

// writeDown writes to downstream. After an error it aborts upstream, because the client has
// disconnected.
func (l *webSocketRelay) writeDown(p []byte) {
	if l.clientGone || len(p) == 0 {
		return
	}
	if _, err := l.downstream.Writer().Write(p); err != nil {
		l.clientGone = true
		_ = l.upstream.Abort()
	}
}
