package proxy

import (
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// decideOutcome decides what follows for a session whose relay has ended, at the node that has the
// client: another relay, a close frame with a code for the client, or the end of its connection.
// why is the cause if the relay was cancelled.
func (l *webSocketRelay) decideOutcome(why cause, x *exchange, r *route.Route) {
	k := l.session
	switch {
	case l.clientEnded || l.clientGone || why == causeClientGone || why == causeShutdown:
	case l.invalid || l.appInvalid:
		k.closeCode = closeProtocol
	case l.closeForwarded:
		k.lingers = true
	case l.clientClosed.Load():
		k.closeCode = k.up.CloseCode()
	case l.isRequested(requestReconnect):
		k.closeCode, k.closeReason = int(closeMoved), closeLeaving.reason()
	case l.hasUnfinishedMessage(), l.ownerCode == endLate:
		k.closeCode, k.closeReason = int(closeMoved), reasonUnfinished
	case l.streaming: // no other relay can continue within a message
	case l.handedOver():
		k.resumes = true
	case !l.shouldResume(why, x, r):
	case k.recordBreak(time.Now()):
		k.closeCode, k.closeReason = int(closeMoved), reasonBrokeOften
	default:
		k.resumes, k.gap, k.skip = true, true, !l.scan.BetweenMessages()
	}
	if l.streaming {
		k.closeCode = 0 // a close frame is not possible there either
	}
}

// hasUnfinishedMessage reports whether a message of the client or the app was incomplete when
// drain-timeout had passed.
func (l *webSocketRelay) hasUnfinishedMessage() bool {
	return l.drainExpired.Load() && (!l.upIsBetweenMessages() || l.from.InMessage())
}

// handedOver reports whether the hand-over is complete: the app has received complete messages and
// answered the close frame, and everything that it sent was passed on.
func (l *webSocketRelay) handedOver() bool {
	if l.app {
		return l.closeAcknowledged && l.upIsBetweenMessages()
	}
	return l.ownerCode == endMoved && l.halfClosed
}

// shouldResume reports whether another relay follows one that broke. If the app itself ended the
// connection without a close frame, none follows while the same app is in place.
func (l *webSocketRelay) shouldResume(why cause, x *exchange, r *route.Route) bool {
	switch {
	case why != causeNone, l.isRequested(requestMove), l.appClose == int(closeMoved):
		return true
	case l.app:
		return l.s.elsewhere(x.shard, r) || l.s.appRefuses()
	case l.ownerCode == endEnded:
		return l.s.elsewhere(x.shard, r)
	}
	return true
}

// elsewhere reports whether the route of the shard, or its ownership epoch, differs from r.
func (s *Server) elsewhere(shard shardmap.Shard, r *route.Route) bool {
	t := s.o.Cluster.Table()
	return int(shard) >= t.Shards() || *t.Route(shard) != *r
}

// reportEnd ends downstream at an owner after the app's connection is closed. It sends the end
// code and closes the sending side. Then it waits until the ingress has closed its side, so that
// no reset overtakes the data.
func (l *webSocketRelay) reportEnd(why cause) {
	if l.closeSent.Load() != 0 && !l.invalid {
		late := time.AfterFunc(moveAfter, func() { l.request(requestStop) })
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
	word := l.endCode(why)
	switch {
	case l.streaming:
	case l.appInvalid:
		_, _ = w.Write(wsframe.AppendClose(nil, closeProtocol, reasonOf(closeProtocol), false))
	case word != 0:
		_, _ = w.Write(wsframe.AppendControl(nil, opEndCode, []byte{word}, false))
	}
	if w.Flush() == nil { // after a failed write the end of the connection is sufficient
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
	case l.s.appRefuses():
		return endRefused
	}
	return endEnded
}

// Reasons in close frames for clients that must reconnect although their shard has not just
// moved. They appear in the logs of clients and name the limit that was exceeded.
const (
	reasonUnfinished = "a message was not whole when the shard had moved"
	reasonBrokeOften = "the connection to the app broke too often"
	reasonLate       = "no app took the socket in time"
	reasonRefused    = "the app did not take the socket"
	// reasonQuarantined is the reason for closeTryLater.
	reasonQuarantined = "the key is in quarantine"
)

// reasonOf returns the reason for a close code that Shardway sends.
func reasonOf(code int) string {
	switch code {
	case closeProtocol:
		return "protocol error"
	case closePolicy:
		return "not allowed"
	case int(closeMoved), int(closeLeaving):
		return closeCode(code).reason()
	}
	return ""
}
