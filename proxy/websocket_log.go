package proxy

import (
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
)

// sessionLog writes access log lines for a resumable WebSocket, instead of one line for its
// request. It writes a line when a relay starts, when a relay ends, and when no further relay
// follows.
type sessionLog struct{ *requestState }

// Values of the field "websocket" in these lines.
const (
	lineBegin = "begin"
	lineEnd   = "end"
	lineLost  = "lost"
)

// relayStarted logs the start of a relay. The line contains how long the client has waited for it,
// since its request or since the end of the previous relay.
func (l sessionLog) relayStarted() {
	k, in := l.exchange.session, int64(0)
	if k.relays == 1 {
		in = int64(len(l.req.Raw()))
	}
	l.exchange.account.upstream = 0 // the field still contains the time of the previous relay
	l.write(in, lineBegin, k.startedBy.String())
}

// relayEnded logs the end of a relay and the amount of data that it has transferred.
func (l sessionLog) relayEnded(end wsession.RelayEnd) {
	a := &l.exchange.account
	a.upstream = a.since(a.began)
	l.write(l.conn.Received()-a.received, lineEnd, end.String())
}

// sessionLost logs that no further relay follows.
func (l sessionLog) sessionLost(end wsession.SessionEnd) {
	l.exchange.account.upstream = 0
	l.write(0, lineLost, end.String())
}

// write writes one line, and starts the account of the next line.
func (l sessionLog) write(in int64, event, reason string) {
	a := &l.exchange.account
	if a.began.IsZero() {
		return
	}
	a.upstreamConn = l.exchange.session.relays
	accessLine{l.requestState, &shardkey.Extractor{Request: &l.req, Client: &l.from, TrustedProxies: l.settings.TrustedProxies}}.send(in, event, reason)
	a.open(l.conn)
	a.queueWait = 0
}
