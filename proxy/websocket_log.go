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

// logRelayStart logs the start of a relay. The line contains how long the client has waited for it,
// since its request or since the end of the previous relay.
func (log sessionLog) logRelayStart() {
	session, in := log.exchange.session, int64(0)
	if session.Relays == 1 {
		in = int64(len(log.req.Raw()))
	}
	log.exchange.account.Upstream = 0 // it still contains the time of the previous relay
	log.write(in, lineBegin, session.StartReason.String())
}

// logRelayEnd logs the end of a relay and the amount of data transferred.
func (log sessionLog) logRelayEnd(result wsession.RelayEnd) {
	account := &log.exchange.account
	account.Upstream = account.Since(account.StartedAt)
	received, _ := log.traffic()
	log.write(received-account.ReceivedBefore, lineEnd, result.String())
}

// logSessionEnd logs that no further relay follows.
func (log sessionLog) logSessionEnd(result wsession.SessionEnd) {
	log.exchange.account.Upstream = 0
	log.write(0, lineLost, result.String())
}

// write writes one line, and starts the account of the next line.
func (log sessionLog) write(in int64, event, reason string) {
	account := &log.exchange.account
	if account.StartedAt.IsZero() {
		return
	}
	account.UpstreamConn = log.exchange.session.Relays
	accessLine{log.requestState, &shardkey.Extractor{Request: &log.req, Client: &log.clientAddr, TrustedProxies: log.settings.TrustedProxies}}.send(in, event, reason)
	account.Open(log.traffic())
	account.QueueWait = 0
}
