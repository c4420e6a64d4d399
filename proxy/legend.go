package proxy

import (
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// judge says what becomes of a socket whose leg is over, at the node that has the client:
// another leg follows, or the client is closed with a code, or its connection just ends.
// Why is what the leg was cut for.
func (l *leg) judge(why cause, x *exchange, r *Route) {
	k := l.k
	switch {
	case l.nearEnded || l.nearGone || why == causeGone || why == causeShutdown:
	case l.bad || l.appBad:
		k.closing = closeProtocol
	case l.passed:
		k.lingers = true
	case l.closed.Load():
		k.closing = k.up.Code()
	case l.wants(wantLeave):
		k.closing, k.why = int(closeMoved), closeLeaving.reason()
	case l.unfinished(), l.word == wordLate:
		k.closing, k.why = int(closeMoved), whyUnfinished
	case l.streaming: // no other leg can go on inside a message
	case l.handedOver():
		k.next = true
	case !l.resumes(why, x, r):
	case k.tooOften(time.Now()):
		k.closing, k.why = int(closeMoved), whyOften
	default:
		k.next, k.gap, k.skip = true, true, !l.scan.Whole()
	}
	if l.streaming {
		k.closing = 0 // nor can a Close stand there
	}
}

// unfinished reports whether there was a message, of either end, that was not whole when
// drain-timeout had passed.
func (l *leg) unfinished() bool { return l.tardy.Load() && (!l.upWhole() || l.from.Message()) }

// handedOver reports whether the app has answered our Close, having got whole messages,
// and all that it sent has been passed on.
func (l *leg) handedOver() bool {
	if l.app {
		return l.handed && l.upWhole()
	}
	return l.word == wordMoved && l.halved
}

// resumes reports whether a leg that broke is followed by another one. One that the app
// ended itself, without Close, is not, as long as the same app is there.
func (l *leg) resumes(why cause, x *exchange, r *Route) bool {
	switch {
	case why != causeNone, l.wants(wantMove), l.appClose == int(closeMoved):
		return true
	case l.app:
		return l.s.elsewhere(x.shard, r) || l.s.appRefuses()
	case l.word == wordEnded:
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

// part ends near, at an owner, once the app's connection is closed: with a word on why,
// and the end of this half. It waits for the other end of near, so that no reset overtakes
// what has been sent.
func (l *leg) part(why cause) {
	if l.told.Load() != 0 && !l.bad {
		late := time.AfterFunc(moveAfter, func() { l.ask(wantStop) })
		<-l.upEnd
		late.Stop()
	}
	l.ask(wantStop)
	<-l.upEnd
	l.end()
	if l.nearGone || l.nearEnded && !l.nearEOF {
		return
	}
	w := l.near.Writer()
	word := l.lastWord(why)
	switch {
	case l.streaming:
	case l.appBad:
		_, _ = w.Write(wsframe.AppendClose(nil, closeProtocol, reasonOf(closeProtocol), false))
	case word != 0:
		_, _ = w.Write(wsframe.AppendControl(nil, opWord, []byte{word}, false))
	}
	if w.Flush() == nil { // with what could not be written the end says enough
		l.near.CloseLinger(h1.WholeRequest)
	}
}

// lastWord says why an owner ends the leg; zero: there is no word for it.
func (l *leg) lastWord(why cause) byte {
	switch {
	case l.handed && l.nearEOF && !l.discarded:
		return wordMoved
	case l.unfinished():
		return wordLate
	case why != causeNone, l.told.Load() != 0, l.nearEnded, l.appClose != 0, l.bad:
		return 0
	case l.s.appRefuses():
		return wordRefused
	}
	return wordEnded
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
