package proxy

import (
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// decideOutcome says what becomes of a socket whose leg is over, at the node that has the client:
// another leg follows, or the client is closed with a code, or its connection just ends.
// Why is what the leg was cut for.
func (l *webSocketRelay) decideOutcome(why cause, x *exchange, r *Route) {
	k := l.session
	switch {
	case l.clientEnded || l.clientGone || why == causeGone || why == causeShutdown:
	case l.invalid || l.appInvalid:
		k.closing = closeProtocol
	case l.closeForwarded:
		k.lingers = true
	case l.clientClosed.Load():
		k.closing = k.up.Code()
	case l.isRequested(requestReconnect):
		k.closing, k.why = int(closeMoved), closeLeaving.reason()
	case l.hasUnfinishedMessage(), l.ownerCode == endLate:
		k.closing, k.why = int(closeMoved), whyUnfinished
	case l.streaming: // no other leg can go on inside a message
	case l.handedOver():
		k.resumes = true
	case !l.shouldResume(why, x, r):
	case k.tooOften(time.Now()):
		k.closing, k.why = int(closeMoved), whyOften
	default:
		k.resumes, k.gap, k.skip = true, true, !l.scan.Whole()
	}
	if l.streaming {
		k.closing = 0 // nor can a Close stand there
	}
}

// hasUnfinishedMessage reports whether there was a message, of either end, that was not whole when
// drain-timeout had passed.
func (l *webSocketRelay) hasUnfinishedMessage() bool {
	return l.drainExpired.Load() && (!l.upIsBetweenMessages() || l.from.Message())
}

// handedOver reports whether the app has answered our Close, having got whole messages,
// and all that it sent has been passed on.
func (l *webSocketRelay) handedOver() bool {
	if l.app {
		return l.closeAcknowledged && l.upIsBetweenMessages()
	}
	return l.ownerCode == endMoved && l.halfClosed
}

// shouldResume reports whether a leg that broke is followed by another one. One that the app
// ended itself, without Close, is not, as long as the same app is there.
func (l *webSocketRelay) shouldResume(why cause, x *exchange, r *Route) bool {
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

// elsewhere reports whether the shard is not where r says, or not any more in that
// ownership epoch.
func (s *Server) elsewhere(shard shardmap.Shard, r *Route) bool {
	t := s.o.Cluster.Table()
	return int(shard) >= t.Shards() || *t.Route(shard) != *r
}

// reportEnd ends near, at an owner, once the app's connection is closed: with a word on why,
// and the end of this half. It waits for the other end of near, so that no reset overtakes
// what has been sent.
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
	if w.Flush() == nil { // with what could not be written the end says enough
		l.downstream.CloseLinger(h1.WholeRequest)
	}
}

// endCode says why an owner ends the leg; zero: there is no word for it.
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

// Why the client of a kept socket is told to come again, where its shard has not just moved:
// who looks at clients' logs sees which bound it was.
const (
	whyUnfinished = "a message was not whole when the shard had moved"
	whyOften      = "the connection to the app broke too often"
	whyLate       = "no app took the socket in time"
	whyRefused    = "the app did not take the socket"
	// whyQuarantined stands behind closeTryLater.
	whyQuarantined = "the key is in quarantine"
)

// reasonOf returns the text that stands behind a code of ours.
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
