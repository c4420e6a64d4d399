package wsrelay

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
// reports whether the direction has parked, so that another goroutine will continue it.
func (relay *Relay) copyUp() (parked bool) {
	if !relay.sendPrologue() {
		return false
	}
	for {
		data, err := relay.downstream.PeekFor(relay.up.parkDelay)
		switch {
		case errors.Is(err, h1.ErrPaused):
			relay.downstream.ResumeRead()
		case relay.up.parkDelay > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			if relay.parkDirection(&relay.up.direction, relay.downstream) {
				return true
			}
		case err != nil:
			relay.finishUp(err)
			return false
		case relay.sentCloseCode.Load() != 0:
			relay.clientDataDiscarded = true
			relay.downstream.Consume(len(data))
		default:
			relay.up.lastActivity.Store(activeNow)
			n, stop := relay.forwardUp(data)
			relay.noteActivity(&relay.up.direction)
			relay.downstream.Consume(n)
			if stop {
				return false
			}
		}
		if relay.handleUpRequests() {
			return false
		}
	}
}

// sendPrologue sends the messages of the client that precede all others on this upstream connection. It
// returns false if upstream accepts no more data.
func (relay *Relay) sendPrologue() bool {
	frames := relay.prologue
	if relay.prologue = nil; len(frames) == 0 {
		return true
	}
	return relay.writeUp(frames)
}

// upIsBetweenMessages reports whether upstream has received no incomplete message, so that another
// relay can continue here.
func (relay *Relay) upIsBetweenMessages() bool {
	return relay.session.discardsMessage || relay.upScanner.BetweenMessages()
}

// forwardUp sends data to upstream. If a hand-over is requested, it stops at the end of the current
// message. It returns how many bytes of data it has processed, and whether the direction must stop.
func (relay *Relay) forwardUp(data []byte) (n int, stop bool) {
	forwardFrom := 0
	for n < len(data) && (!relay.isRequested(requestMove) || !relay.upIsBetweenMessages()) {
		betweenFrames := relay.upScanner.BetweenFrames()
		stepLen, err := relay.upScanner.Step(data[n:])
		if err != nil {
			relay.failProtocol(data[forwardFrom:n], betweenFrames)
			return n, true
		}
		n += stepLen
		if relay.session.discardsMessage {
			forwardFrom = n
			if relay.upScanner.Closed() { // the app has received an incomplete message, so only a close frame can follow
				relay.handleClientClose()
				relay.writeUp(wsframe.AppendClose(nil, relay.upScanner.CloseCode(), "", true))
				return n, true
			}
			relay.session.discardsMessage = !relay.upScanner.BetweenMessages()
			continue
		}
		relay.session.replay.record(data[n-stepLen:n], relay.upScanner)
	}
	if forwardFrom < n {
		relay.frameComplete = relay.upScanner.BetweenFrames()
	}
	if relay.upScanner.Closed() {
		relay.handleClientClose()
	}
	return n, !relay.writeUp(data[forwardFrom:n]) || relay.upScanner.Closed()
}

// handleClientClose records that downstream has sent a close frame. It must run before the frame is
// written to upstream, so that the reply of the app is recognized.
func (relay *Relay) handleClientClose() {
	relay.clientClosed.Store(true)
	relay.awaitCloseReply(&relay.down.direction, func() { relay.ifRunning(func() { _ = relay.upstream.Abort() }) })
}

// failProtocol ends a WebSocket whose client violates the protocol. validData contains the valid
// bytes that have not been sent to upstream; failProtocol sends them first. betweenFrames is set if
// no byte of the invalid frame has been sent.
func (relay *Relay) failProtocol(validData []byte, betweenFrames bool) {
	relay.clientInvalid = true
	if relay.frameComplete = relay.writeUp(validData) && betweenFrames; relay.frameComplete {
		relay.sendClose(wsession.CloseProtocol, wsession.CloseFrameTimeout)
	}
	relay.abortUpstreamAfter(wsession.EndTimeout)
}

// writeUp writes to upstream. It returns false if upstream accepts no more data. The direction down
// continues for wsession.EndTimeout, because upstream may have sent the reason for the failure.
func (relay *Relay) writeUp(data []byte) bool {
	writer := relay.upstream.Writer()
	_, err := writer.Write(data)
	if err == nil {
		err = writer.Flush()
	}
	if err != nil {
		relay.frameComplete = false
		relay.abortUpstreamAfter(wsession.EndTimeout)
		return false
	}
	writer.ReleaseEmptyBuffer()
	return true
}

// abortUpstreamAfter aborts upstream after delay, unless the relay has ended by then.
func (relay *Relay) abortUpstreamAfter(delay time.Duration) {
	relay.abortAfter(delay, relay.upstream)
}

// handleUpRequests handles requests of other goroutines to stop or to move the WebSocket. It reports whether
// the direction must stop.
func (relay *Relay) handleUpRequests() bool {
	switch {
	case relay.isRequested(requestStop):
		if relay.isRequested(requestCloseFrame) {
			relay.sendClose(int(relay.upstreamCloseCode.Load()), wsession.CloseFrameTimeout)
		}
		return true
	case !relay.isRequested(requestMove) || relay.sentCloseCode.Load() != 0 || !relay.upIsBetweenMessages():
		return false
	case relay.toApp:
		relay.handOver()
		return relay.toClient
	}
	// Close the sending side after the last message. The owner then sends the close frame to the
	// app.
	relay.abortUpstreamAfter(relay.shared.DrainTimeout + 2*wsession.HandoverDelay)
	if relay.halfClosed = relay.upstream.CloseWrite(); !relay.halfClosed {
		_ = relay.upstream.Abort()
	}
	return true
}

// handOver starts the hand-over at the app's node: it sends the app the close code
// wsession.CloseShardMoved. The app then has DrainTimeout to answer, including the time to read the
// data that precedes the close frame.
func (relay *Relay) handOver() {
	timeout := relay.shared.DrainTimeout
	relay.runAfter(timeout, func() {
		relay.drainExpired.Store(true)
		_ = relay.upstream.Abort()
	})
	relay.sendClose(wsession.CloseShardMoved, timeout)
}

// sendClose sends a close frame to the app, unless the app has received an incomplete frame or
// already has a close frame. timeout limits the time of the write.
func (relay *Relay) sendClose(code int, timeout time.Duration) {
	closed := relay.upScanner.Closed() && !errors.Is(relay.upScanner.Err(), wsframe.ErrClose) // an invalid close frame was not sent to the app
	if !relay.frameComplete || closed || !relay.sentCloseCode.CompareAndSwap(0, int32(code)) {
		return
	}
	defer close(relay.closeWritten)
	relay.upstream.Writer().SetPrecondition(func() (time.Duration, error) { return timeout, nil })
	var frames []byte
	if relay.toApp && code == wsession.CloseShardMoved {
		frames = wsframe.AppendControl(frames, wsframe.OpPing, []byte(handoverPing), true)
	}
	relay.writeUp(wsframe.AppendClose(frames, code, wsession.DefaultReason(code), true))
}

// finishUp handles an end of downstream without a close frame. At an owner, a FIN of the ingress
// between two messages requests a hand-over. Otherwise the client is gone, and upstream is aborted.
func (relay *Relay) finishUp(err error) {
	relay.clientEnded, relay.clientEOF = true, errors.Is(err, io.EOF)
	switch {
	case relay.clientEOF && relay.sentCloseCode.Load() != 0:
	case !relay.toClient && relay.clientEOF && relay.upScanner.BetweenMessages():
		relay.handOver()
	default:
		_ = relay.upstream.Abort()
	}
}
