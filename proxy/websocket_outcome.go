package proxy

import (
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// decideOutcome decides what follows at the ingress after a relay has ended: another relay, a close
// frame for the client, or the end of the client's connection without a close frame. cancelCause is
// the cause for which the relay was cancelled, or causeNone. dest is the route that the relay has
// used.
func (relay *webSocketRelay) decideOutcome(cancelCause cause, exchange *exchange, dest *route.Route) {
	session := relay.session
	switch {
	case relay.clientEnded || relay.clientGone || cancelCause == causeClientGone || cancelCause == causeShutdown:
	case relay.clientInvalid || relay.appInvalid:
		session.closeCode = wsession.CloseProtocol
	case relay.closeForwarded:
		session.closeFrameSent = true
	case relay.clientClosed.Load():
		session.closeCode = session.clientScanner.CloseCode()
	case relay.isRequested(requestReconnect):
		session.closeCode, session.closeReason = wsession.CloseShardMoved, wsession.DefaultReason(wsession.CloseNodeLeaving)
	case relay.hasUnfinishedMessage(), relay.ownerEndCode == endMessageUnfinished:
		session.closeCode, session.closeReason = wsession.CloseShardMoved, wsession.ReasonMessageIncomplete
	case relay.streamingMessage: // no other relay can continue in the middle of a message
	case relay.handedOver():
		session.needsRelay = true
	case !relay.shouldResume(cancelCause, exchange, dest):
	case session.recordBreak(time.Now()):
		session.closeCode, session.closeReason = wsession.CloseShardMoved, wsession.ReasonTooManyFailures
	default:
		session.needsRelay, session.messagesMayBeLost, session.discardsMessage = true, true, !relay.upScanner.BetweenMessages()
	}
	if relay.streamingMessage {
		session.closeCode = 0 // a close frame cannot be sent within a message either
	}
}

// hasUnfinishedMessage reports whether a message of the client or of the app was still incomplete
// after drain-timeout.
func (relay *webSocketRelay) hasUnfinishedMessage() bool {
	return relay.drainExpired.Load() && (!relay.upIsBetweenMessages() || relay.downScanner.InMessage())
}

// handedOver reports whether the hand-over is complete. Then the app has received complete messages
// only and has answered the close frame, and all its data has been sent to the client.
func (relay *webSocketRelay) handedOver() bool {
	if relay.toApp {
		return relay.closeAcknowledged && relay.upIsBetweenMessages()
	}
	return relay.ownerEndCode == endHandedOver && relay.halfClosed
}

// shouldResume reports whether another relay must follow a relay that broke. If the app itself
// ended the connection without a close frame, the app wants it to end. Then another relay follows
// only if the shard has a new owner, or if the app has died.
func (relay *webSocketRelay) shouldResume(cancelCause cause, exchange *exchange, dest *route.Route) bool {
	switch {
	case cancelCause != causeNone, relay.isRequested(requestMove), relay.appCloseCode == wsession.CloseShardMoved:
		return true
	case relay.toApp:
		return relay.server.routeChanged(exchange.shard, dest) || relay.server.appRefuses()
	case relay.ownerEndCode == endWithoutClose:
		return relay.server.routeChanged(exchange.shard, dest)
	}
	return true
}

// routeChanged reports whether the route of the shard, or its ownership epoch, differs from r.
func (s *Server) routeChanged(shard shardmap.Shard, dest *route.Route) bool {
	table := s.options.Cluster.Table()
	return int(shard) >= table.Shards() || *table.Route(shard) != *dest
}

// reportEnd closes downstream at an owner after the app's connection has ended. It sends the end
// code to the ingress and closes the sending side. Then it waits until the ingress has closed its
// side, because a reset could overtake data that is still on the way.
func (relay *webSocketRelay) reportEnd(cancelCause cause) {
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
	if writer.Flush() == nil { // after a failed write, the ingress notices the end of the connection anyway
		relay.downstream.CloseLinger(h1.WholeRequest)
	}
}

// endCode returns the end code for the ingress; zero means that there is none.
func (relay *webSocketRelay) endCode(cancelCause cause) byte {
	switch {
	case relay.closeAcknowledged && relay.clientEOF && !relay.clientDataDiscarded:
		return endHandedOver
	case relay.hasUnfinishedMessage():
		return endMessageUnfinished
	case cancelCause != causeNone, relay.sentCloseCode.Load() != 0, relay.clientEnded, relay.appCloseCode != 0, relay.clientInvalid:
		return 0
	case relay.server.appRefuses():
		return endAppUnreachable
	}
	return endWithoutClose
}
