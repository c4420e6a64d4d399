package wsrelay

import (
	"time"

	"shardway/proxy/cause"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// Finish ends the relay at the ingress after the direction up has stopped, and decides what follows
// for the session.
func (relay *Relay) Finish(cancelCause cause.Cause, shard shardmap.Shard, dest *route.Route) {
	relay.end()
	relay.decideOutcome(cancelCause, shard, dest)
	relay.session.LastRelayBulk = relay.isBulk()
}

// decideOutcome decides what follows at the ingress after a relay has ended: another relay, a close
// frame for the client, or the end of the client's connection without a close frame. cancelCause is
// why the relay was cancelled, or cause.None. dest is the route that the relay used.
func (relay *Relay) decideOutcome(cancelCause cause.Cause, shard shardmap.Shard, dest *route.Route) {
	session := relay.session
	switch {
	case relay.clientEnded || relay.clientGone || cancelCause == cause.ClientGone || cancelCause == cause.Shutdown:
	case relay.clientInvalid || relay.appInvalid:
		session.CloseCode = wsession.CloseProtocol
	case relay.closeForwarded:
		session.CloseFrameSent = true
	case relay.clientClosed.Load():
		session.CloseCode = session.clientScanner.CloseCode()
	case relay.isRequested(requestReconnect):
		session.CloseCode, session.CloseReason = wsession.CloseShardMoved, wsession.DefaultReason(wsession.CloseNodeLeaving)
	case relay.hasUnfinishedMessage(), relay.ownerEndCode == endMessageUnfinished:
		session.CloseCode, session.CloseReason = wsession.CloseShardMoved, wsession.ReasonMessageIncomplete
	case relay.streamingMessage: // no other relay can continue in the middle of a message
	case relay.handedOver():
		session.NeedsRelay = true
	case !relay.shouldResume(cancelCause, shard, dest):
	case session.recordBreak(time.Now()):
		session.CloseCode, session.CloseReason = wsession.CloseShardMoved, wsession.ReasonTooManyFailures
	default:
		session.NeedsRelay, session.MessagesMayBeLost, session.discardsMessage = true, true, !relay.upScanner.BetweenMessages()
	}
	if session.NeedsRelay && session.replay.failure != "" {
		session.NeedsRelay, session.CloseCode, session.CloseReason = false, wsession.CloseShardMoved, session.replay.failure
	}
	if relay.streamingMessage {
		session.CloseCode = 0 // a close frame cannot be sent within a message either
	}
}

// hasUnfinishedMessage reports whether a message of the client or of the app was still incomplete
// after drain-timeout.
func (relay *Relay) hasUnfinishedMessage() bool {
	return relay.drainExpired.Load() && (!relay.upIsBetweenMessages() || relay.downScanner.InMessage())
}

// handedOver reports whether the hand-over is complete: the app has received only complete messages
// and has answered the close frame, and all its data has been sent to the client.
func (relay *Relay) handedOver() bool {
	if relay.toApp {
		return relay.closeAcknowledged && relay.upIsBetweenMessages()
	}
	return relay.ownerEndCode == endHandedOver && relay.halfClosed
}

// shouldResume reports whether another relay must follow a relay that broke. If the app
// closed the connection without a close frame, another relay follows
// only if the shard has a new owner, or if the app has died.
func (relay *Relay) shouldResume(cancelCause cause.Cause, shard shardmap.Shard, dest *route.Route) bool {
	switch {
	case cancelCause != cause.None, relay.isRequested(requestMove), relay.appCloseCode == wsession.CloseShardMoved:
		return true
	case relay.toApp:
		return relay.shared.RouteChanged(shard, dest) || relay.appHasDied()
	case relay.ownerEndCode == endWithoutClose:
		return relay.shared.RouteChanged(shard, dest)
	}
	return true
}

// processEndDelay is how long after its connections an app process may end for both to count as one
// event. The kernel closes the connections of a dying process before its parent can reap it.
const processEndDelay = 500 * time.Millisecond

// appHasDied reports whether the app has died: its process has exited, or its instance no longer
// accepts connections. It may block.
func (relay *Relay) appHasDied() bool {
	if relay.ProcessEnded == nil {
		return relay.shared.AppRefuses(relay.Instance)
	}
	select {
	case <-relay.ProcessEnded:
		return true
	case <-time.After(processEndDelay):
		return false
	}
}

// Result returns the decision of Finish for metrics.
func (relay *Relay) Result() wsession.RelayEnd {
	session := relay.session
	switch {
	case session.NeedsRelay && session.MessagesMayBeLost:
		return wsession.EndFailed
	case session.NeedsRelay:
		return wsession.EndHandedOver
	case relay.clientInvalid || relay.appInvalid:
		return wsession.EndProtocolError
	case relay.closeForwarded || relay.clientClosed.Load():
		return wsession.EndClosed
	case session.CloseCode != 0:
		return wsession.EndMustReconnect
	case relay.clientEnded || relay.clientGone:
		return wsession.EndClientGone
	}
	return wsession.EndDisconnected
}

// MayHaveEndedTogether reports whether the relay may have ended together with others, because of an
// event of the cluster. An unacknowledged wsession.CloseShardMoved means that the app itself
// requested another relay.
func (relay *Relay) MayHaveEndedTogether() bool {
	return relay.appCloseCode != wsession.CloseShardMoved || relay.closeAcknowledged
}

// ReportEnd closes downstream at an owner after the app's connection has ended. It sends the end
// code to the ingress and closes the sending side. Then it waits until the ingress has closed its
// side, because a reset could overtake data that is still on the way.
func (relay *Relay) ReportEnd(cancelCause cause.Cause) {
	if relay.sentCloseCode.Load() != 0 && !relay.clientInvalid {
		timer := time.AfterFunc(wsession.HandoverDelay, func() { relay.request(requestStop) })
		<-relay.upStopped
		timer.Stop()
	}
	relay.request(requestStop)
	<-relay.upStopped
	relay.end()
	if relay.clientGone || relay.clientEnded && !relay.clientEOF {
		return
	}
	writer := relay.downstream.Writer()
	code := relay.endCode(cancelCause)
	switch {
	case relay.streamingMessage:
	case relay.appInvalid:
		_, _ = writer.Write(wsframe.AppendClose(nil, wsession.CloseProtocol, wsession.DefaultReason(wsession.CloseProtocol), false))
	case code != 0:
		_, _ = writer.Write(wsframe.AppendControl(nil, opEndCode, []byte{code}, false))
	}
	if writer.Flush() == nil { // if the write failed, the ingress notices the end of the connection anyway
		relay.downstream.CloseLinger(h1.WholeRequest)
	}
}

// endCode returns the end code for the ingress; zero means that there is none.
func (relay *Relay) endCode(cancelCause cause.Cause) byte {
	switch {
	case relay.closeAcknowledged && relay.clientEOF && !relay.clientDataDiscarded:
		return endHandedOver
	case relay.hasUnfinishedMessage():
		return endMessageUnfinished
	case cancelCause != cause.None, relay.sentCloseCode.Load() != 0, relay.clientEnded, relay.appCloseCode != 0, relay.clientInvalid:
		return 0
	case relay.appHasDied():
		return endAppUnreachable
	}
	return endWithoutClose
}

// A relay counts as bulk if it has transferred at least bulkBytes bytes, and at least bulkRate
// bytes per second of its life. Its session then uses its own connections.
const (
	bulkBytes = 1 << 20
	bulkRate  = 64 << 10
)

// transferred returns how many bytes the relay has transferred on downstream.
func (relay *Relay) transferred() int64 {
	return relay.downstream.Received() + relay.downstream.Sent() - relay.transferredBefore
}

// isBulk reports whether an ended relay has transferred much data; see bulkBytes.
func (relay *Relay) isBulk() bool {
	transferred, duration := relay.transferred(), relay.shared.Clock.Now()-relay.startedAt
	return transferred >= bulkBytes && transferred >= int64(bulkRate*duration.Seconds())
}
