package proxy

import "shardway/proxy/shardkey"

// sessionLog writes the access log lines of a resumable WebSocket, instead of a line for its
// request: when a relay begins, when it ends, and when no further relay follows.
type sessionLog struct{ *requestState }

// Words of the lines.
const (
	// Types of lines.
	lineBegin = "begin"
	lineEnd   = "end"
	lineLost  = "lost"
)

// relayStarted logs how long the client has waited for the relay, since its request or since the
// end of the previous relay.
func (l sessionLog) relayStarted() {
	k, in := l.x.session, int64(0)
	if k.relays == 1 {
		in = int64(len(l.req.Raw()))
	}
	l.x.account.upstream = 0 // it still has the value of the previous relay
	l.write(in, lineBegin, relayStartNames[k.startedBy])
}

// relayEnded logs what the relay has transferred.
func (l sessionLog) relayEnded(end relayEnd) {
	a := &l.x.account
	a.upstream = a.since(a.began)
	l.write(l.conn.Received()-a.received, lineEnd, relayEndNames[end])
}

// sessionLost logs that the WebSocket gets no further relay.
func (l sessionLog) sessionLost(end sessionEnd) {
	l.x.account.upstream = 0
	l.write(0, lineLost, sessionEndNames[end])
}

// write writes one line and starts the record of the next one.
func (l sessionLog) write(in int64, word, why string) {
	a := &l.x.account
	if a.began.IsZero() {
		return
	}
	a.leg = l.x.session.relays
	accessLine{l.requestState, &shardkey.Extractor{Request: &l.req, Client: &l.from, TrustedProxies: l.set.TrustedProxies}}.send(in, word, why)
	a.open(l.conn)
	a.held = 0
}
