package proxy

import (
	"errors"
	"io"
	"os"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

// copyUp copies data from downstream to upstream until the direction must stop or parks. parked
// means that the direction has parked, and that another goroutine will continue it.
func (l *webSocketRelay) copyUp() (parked bool) {
	for {
		p, err := l.downstream.PeekFor(l.up.parkDelay)
		switch {
		case errors.Is(err, h1.ErrPaused):
			l.downstream.ResumeRead()
		case l.up.parkDelay > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			if l.parkDirection(&l.up.direction, l.downstream) {
				return true
			}
		case err != nil:
			l.finishUp(err)
			return false
		case l.closeSent.Load() != 0:
			l.discarded = true
			l.downstream.Consume(len(p))
		default:
			l.up.lastActivity.Store(activeNow)
			n, stop := l.forwardUp(p)
			l.noteActivity(&l.up.direction)
			l.downstream.Consume(n)
			if stop {
				return false
			}
		}
		if l.shouldStopUp() {
			return false
		}
	}
}

// upIsBetweenMessages reports whether upstream has received no incomplete message, so that another
// relay can continue here.
func (l *webSocketRelay) upIsBetweenMessages() bool {
	return l.session.skip || l.upScanner.BetweenMessages()
}

// forwardUp sends p to upstream. If a hand-over is requested, it stops at the end of the present
// message. It returns how many bytes of p it has processed, and whether the direction must stop.
func (l *webSocketRelay) forwardUp(p []byte) (n int, stop bool) {
	from := 0
	for n < len(p) && (!l.isRequested(requestMove) || !l.upIsBetweenMessages()) {
		between := l.upScanner.BetweenFrames()
		m, err := l.upScanner.Step(p[n:])
		if err != nil {
			l.failProtocol(p[from:n], between)
			return n, true
		}
		n += m
		if l.session.skip {
			from = n
			if l.upScanner.Closed() { // the app has not received the broken message completely, so only a close frame can follow it
				l.handleClientClose()
				l.writeUp(wsframe.AppendClose(nil, l.upScanner.CloseCode(), "", true))
				return n, true
			}
			l.session.skip = !l.upScanner.BetweenMessages()
		}
	}
	if from < n {
		l.frameComplete = l.upScanner.BetweenFrames()
	}
	if l.upScanner.Closed() {
		l.handleClientClose()
	}
	return n, !l.writeUp(p[from:n]) || l.upScanner.Closed()
}

// handleClientClose records that downstream has sent a close frame. It must run before the frame is
// written to upstream, so that the app's answer is recognized.
func (l *webSocketRelay) handleClientClose() {
	l.clientClosed.Store(true)
	l.awaitCloseReply(&l.down.direction, func() { l.ifRunning(func() { _ = l.upstream.Abort() }) })
}

// failProtocol ends a WebSocket whose client violates the protocol. before contains the valid bytes
// that have not been sent to upstream; failProtocol sends them first. between means that no byte of
// the invalid frame has been sent.
func (l *webSocketRelay) failProtocol(before []byte, between bool) {
	l.invalid = true
	if l.frameComplete = l.writeUp(before) && between; l.frameComplete {
		l.sendClose(wsession.CloseProtocol, closeFrameWrite)
	}
	l.abortUpstreamAfter(endWait)
}

// writeUp writes to upstream. It returns false if upstream accepts no more data. The direction down
// continues for endWait, because upstream may have sent the reason.
func (l *webSocketRelay) writeUp(p []byte) bool {
	w := l.upstream.Writer()
	_, err := w.Write(p)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		l.frameComplete = false
		l.abortUpstreamAfter(endWait)
		return false
	}
	w.ReleaseEmptyBuffer()
	return true
}

// abortUpstreamAfter aborts upstream after d, unless the relay has ended by then.
func (l *webSocketRelay) abortUpstreamAfter(d time.Duration) { l.abortAfter(d, l.upstream) }

// shouldStopUp acts on the bits in requests, and reports whether the direction must stop.
func (l *webSocketRelay) shouldStopUp() bool {
	switch {
	case l.isRequested(requestStop):
		if l.isRequested(requestCloseFrame) {
			l.sendClose(int(l.code.Load()), closeFrameWrite)
		}
		return true
	case !l.isRequested(requestMove) || l.closeSent.Load() != 0 || !l.upIsBetweenMessages():
		return false
	case l.toApp:
		l.handOver()
		return l.toClient
	}
	// Close the sending side after the last message. The owner then sends the close frame to the
	// app.
	l.abortUpstreamAfter(l.server.options.DrainTimeout + 2*wsession.HandoverDelay)
	if l.halfClosed = l.upstream.CloseWrite(); !l.halfClosed {
		_ = l.upstream.Abort()
	}
	return true
}

// handOver starts the hand-over at the node of the app: it sends the app the close code wsession.CloseMoved.
// The app has DrainTimeout from now on to answer. That includes the time to read the data that
// precedes the close frame.
func (l *webSocketRelay) handOver() {
	within := l.server.options.DrainTimeout
	l.runAfter(within, func() {
		l.drainExpired.Store(true)
		_ = l.upstream.Abort()
	})
	l.sendClose(wsession.CloseMoved, within)
}

// sendClose sends a close frame to the app, unless the app has received an incomplete frame or
// already has a close frame. within limits the time of the write.
func (l *webSocketRelay) sendClose(code int, within time.Duration) {
	closed := l.upScanner.Closed() && !errors.Is(l.upScanner.Err(), wsframe.ErrClose) // an invalid close frame was not sent to the app
	if !l.frameComplete || closed || !l.closeSent.CompareAndSwap(0, int32(code)) {
		return
	}
	defer close(l.closeWritten)
	l.upstream.Writer().SetPrecondition(func() (time.Duration, error) { return within, nil })
	var frames []byte
	if l.toApp && code == wsession.CloseMoved {
		frames = wsframe.AppendControl(frames, wsframe.OpPing, []byte(pingMoved), true)
	}
	l.writeUp(wsframe.AppendClose(frames, code, wsession.ReasonOf(code), true))
}

// finishUp handles an end of downstream that no close frame preceded. At an owner, a FIN of the
// ingress between two messages requests a hand-over. In other cases the client has gone, and
// upstream is aborted.
func (l *webSocketRelay) finishUp(err error) {
	l.clientEnded, l.clientEOF = true, errors.Is(err, io.EOF)
	switch {
	case l.clientEOF && l.closeSent.Load() != 0:
	case !l.toClient && l.clientEOF && l.upScanner.BetweenMessages():
		l.handOver()
	default:
		_ = l.upstream.Abort()
	}
}
