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
// frame for the client, or the end of the client's connection without a close frame. why is the
// cause for which the relay was cancelled, or causeNone. r is the route that the relay has used.
func (l *webSocketRelay) decideOutcome(why cause, x *exchange, r *route.Route) {
	k := l.session
	switch {
	case l.clientEnded || l.clientGone || why == causeClientGone || why == causeShutdown:
	case l.invalid || l.appInvalid:
		k.closeCode = wsession.CloseProtocol
	case l.closeForwarded:
		k.lingers = true
	case l.clientClosed.Load():
		k.closeCode = k.up.CloseCode()
	case l.isRequested(requestReconnect):
		k.closeCode, k.closeReason = wsession.CloseMoved, wsession.ReasonOf(wsession.CloseLeaving)
	case l.hasUnfinishedMessage(), l.ownerCode == endLate:
		k.closeCode, k.closeReason = wsession.CloseMoved, wsession.ReasonUnfinished
	case l.streaming: // no other relay can continue in the middle of a message
	case l.handedOver():
		k.resumes = true
	case !l.shouldResume(why, x, r):
	case k.recordBreak(time.Now()):
		k.closeCode, k.closeReason = wsession.CloseMoved, wsession.ReasonBrokeOften
	default:
		k.resumes, k.gap, k.skip = true, true, !l.upScanner.BetweenMessages()
	}
	if l.streaming {
		k.closeCode = 0 // a close frame cannot be sent within a message either
	}
}

// hasUnfinishedMessage reports whether a message of the client or of the app was still incomplete
// after drain-timeout.
func (l *webSocketRelay) hasUnfinishedMessage() bool {
	return l.drainExpired.Load() && (!l.upIsBetweenMessages() || l.downScanner.InMessage())
}

// handedOver reports whether the hand-over is complete. Then the app has received complete messages
// only and has answered the close frame, and all its data has been sent to the client.
func (l *webSocketRelay) handedOver() bool {
	if l.toApp {
		return l.closeAcknowledged && l.upIsBetweenMessages()
	}
	return l.ownerCode == endMoved && l.halfClosed
}

// shouldResume reports whether another relay must follow a relay that broke. If the app itself
// ended the connection without a close frame, the app wants it to end. Then another relay follows
// only if the shard has a new owner, or if the app has died.
func (l *webSocketRelay) shouldResume(why cause, x *exchange, r *route.Route) bool {
	switch {
	case why != causeNone, l.isRequested(requestMove), l.appClose == wsession.CloseMoved:
		return true
	case l.toApp:
		return l.server.elsewhere(x.shard, r) || l.server.appRefuses()
	case l.ownerCode == endEnded:
		return l.server.elsewhere(x.shard, r)
	}
	return true
}

// elsewhere reports whether the route of the shard, or its ownership epoch, differs from r.
func (s *Server) elsewhere(shard shardmap.Shard, r *route.Route) bool {
	t := s.options.Cluster.Table()
	return int(shard) >= t.Shards() || *t.Route(shard) != *r
}

// reportEnd closes downstream at an owner after the app's connection has ended. It sends the end
// code to the ingress and closes the sending side. Then it waits until the ingress has closed its
// side, because a reset could overtake data that is still on the way.
func (l *webSocketRelay) reportEnd(why cause) {
	if l.closeSent.Load() != 0 && !l.invalid {
		late := time.AfterFunc(wsession.HandoverDelay, func() { l.request(requestStop) })
		<-l.upEnd
		late.Stop()
	}
	l.request(requestStop)
	<-l.upEnd
	l.end()
	if l.clientGone || l.clientEnded && !l.clientEOF {
		return
	}
	w := l.downstream.Writer()
	code := l.endCode(why)
	switch {
	case l.streaming:
	case l.appInvalid:
		_, _ = w.Write(wsframe.AppendClose(nil, wsession.CloseProtocol, wsession.ReasonOf(wsession.CloseProtocol), false))
	case code != 0:
		_, _ = w.Write(wsframe.AppendControl(nil, opEndCode, []byte{code}, false))
	}
	if w.Flush() == nil { // after a failed write, the ingress notices the end of the connection anyway
		l.downstream.CloseLinger(h1.WholeRequest)
	}
}

// endCode returns the end code for the ingress; zero means that there is none.
func (l *webSocketRelay) endCode(why cause) byte {
	switch {
	case l.closeAcknowledged && l.clientEOF && !l.discarded:
		return endMoved
	case l.hasUnfinishedMessage():
		return endLate
	case why != causeNone, l.closeSent.Load() != 0, l.clientEnded, l.appClose != 0, l.invalid:
		return 0
	case l.server.appRefuses():
		return endRefused
	}
	return endEnded
}
