package wsrelay

import (
	"errors"
	"os"

	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

// copyDown copies data from upstream to downstream until upstream ends, a close frame arrives, or
// the direction parks. parked reports whether the direction has parked, so that another goroutine
// will continue it.
func (relay *Relay) copyDown() (parked bool) {
	writer := relay.downstream.Writer()
	for {
		data, err := relay.upstream.PeekFor(relay.down.parkDelay)
		switch {
		case relay.down.parkDelay > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			if relay.parkDirection(&relay.down.direction, relay.upstream) {
				return true
			}
			continue
		case err != nil:
			relay.upstreamErr = err
			return false
		}
		relay.down.lastActivity.Store(activeNow)
		relay.upstream.Consume(len(data))
		for len(data) > 0 {
			n, err := relay.downScanner.Step(data)
			if err != nil {
				relay.appInvalid = true
				return false
			}
			if done := relay.forwardDown(data[:n]); done {
				if writer.Flush() != nil {
					relay.clientGone = true
				}
				writer.ReleaseEmptyBuffer()
				return false
			}
			data = data[n:]
		}
		if writer.Flush() != nil {
			relay.clientGone = true
			_ = relay.upstream.Abort()
			return false
		}
		writer.ReleaseEmptyBuffer()
		relay.noteActivity(&relay.down.direction)
	}
}

// forwardDown sends bytes of one frame of the app to downstream. It buffers a message until it is
// complete or exceeds maxBufferedMessage, because the next relay could not continue an incomplete
// message. Control frames within a message are sent immediately. It returns true if nothing may
// follow.
func (relay *Relay) forwardDown(data []byte) (done bool) {
	switch {
	case relay.downScanner.IsControl():
		relay.bufferedControl = append(relay.bufferedControl, data...)
		if !relay.downScanner.BetweenFrames() {
			return false
		}
		done = relay.forwardControl()
		relay.bufferedControl = relay.bufferedControl[:0]
		return done || relay.clientGone
	case relay.streamingMessage || relay.downScanner.BetweenMessages() && len(relay.bufferedMessage) == 0:
		relay.writeDown(data)
	case relay.downScanner.BetweenMessages() || len(relay.bufferedMessage)+len(data) > maxBufferedMessage:
		relay.writeDown(relay.bufferedMessage)
		relay.writeDown(data)
		relay.bufferedMessage = nil
		relay.streamingMessage = true
	default:
		relay.bufferedMessage = append(relay.bufferedMessage, data...)
	}
	relay.streamingMessage = relay.streamingMessage && !relay.downScanner.BetweenMessages()
	return relay.clientGone
}

// forwardControl sends a control frame of the app to downstream, except for frames that belong to
// the hand-over. done reports whether the frame ends the relay.
func (relay *Relay) forwardControl() (done bool) {
	switch relay.downScanner.Opcode() {
	case opEndCode:
		if code := relay.downScanner.Payload(); len(code) > 0 {
			relay.ownerEndCode = code[0]
		}
		return true
	case wsframe.OpPong:
		if relay.toApp && relay.sentCloseCode.Load() != 0 && string(relay.downScanner.Payload()) == handoverPing {
			relay.pongReceived = true
			return false
		}
	case wsframe.OpClose:
		relay.appCloseCode = relay.downScanner.CloseCode()
		if relay.closeAcknowledged = relay.acknowledgesClose(relay.appCloseCode); relay.closeAcknowledged || relay.toClient && relay.appCloseCode == wsession.CloseShardMoved && !relay.clientClosed.Load() {
			return true // the client must not see the response to a close frame that it did not send
		}
		relay.writeDown(relay.bufferedControl)
		relay.closeForwarded = true
		return true
	}
	relay.writeDown(relay.bufferedControl)
	return false
}

// acknowledgesClose reports whether a close frame of the app answers the close frame of this node.
// A frame with a different code crossed it on the way, and is final. But some libraries answer
// every close frame with code 1000, or without a code. This node therefore sends a ping before its
// close frame, to which RFC 6455 section 5.5.2 requires a pong. If the pong has not arrived, the
// app sent its close frame before it had read this node's close frame and all data of the client.
func (relay *Relay) acknowledgesClose(code int) bool {
	sentCode := int(relay.sentCloseCode.Load())
	if sentCode != wsession.CloseShardMoved {
		return sentCode != 0
	}
	return (relay.pongReceived || !relay.toApp) && (code == sentCode || code == wsession.CloseNormal || code == wsframe.NoCode)
}

// writeDown writes to downstream. After an error it aborts upstream, because the client has
// disconnected.
func (relay *Relay) writeDown(data []byte) {
	if relay.clientGone || len(data) == 0 {
		return
	}
	if _, err := relay.downstream.Writer().Write(data); err != nil {
		relay.clientGone = true
		_ = relay.upstream.Abort()
	}
}
