package proxy

import (
	"shardway/proxy/accesslog"
	"shardway/proxy/shardkey"
)

// accessLine writes access log lines for a request.
type accessLine struct {
	*requestState
	keys *shardkey.Extractor
}

// write writes the line of a finished request. It writes nothing for a resumable WebSocket, whose lines are written
// by sessionLog.
func (line accessLine) write() {
	if !line.exchange.isResumption() {
		received, _ := line.traffic()
		line.send(line.exchange.account.BytesIn(&line.req, received), "", "")
	}
}

// send writes a line. If event is not empty, the line belongs to a resumable WebSocket, and reason gives the
// event's cause or result.
func (line accessLine) send(in int64, event, reason string) {
	exchange := &line.exchange
	_, sent := line.traffic()
	request := accesslog.Request{
		HTTP: &line.req, Sent: sent, Client: &line.clientAddr, ClientIP: line.keys.ClientIP(), Route: line.routeName(),
		ID: exchange.requestID(&line.req), Service: exchange.service, HasShard: exchange.hasShard, Shard: exchange.shardInService(), Event: event, Reason: reason,
	}
	if !exchange.Keyless && exchange.Key != nil {
		request.Key, request.HashKey = exchange.Key, line.server.options.HashKey()
	}
	line.settings.Access.Write(&exchange.account, request, in)
}

// writeInvalid writes the line for received bytes that are not a valid request. It writes nothing if
// no response was sent.
func (line accessLine) writeInvalid() {
	hasResponse := line.exchange.account.Status != 0
	if line.settings.Access != nil && line.ingress == "" && hasResponse {
		line.settings.Access.WriteInvalid(&line.exchange.account, line.clientAddr.Text)
	}
}

// routeName returns the name of the request's route. It is "queued" if the request has waited without
// being sent, and "none" if the request failed before routing.
func (line accessLine) routeName() string {
	if routeKind := line.exchange.routeKind(); routeKind != 0 {
		return routeKind.String()
	}
	return "none"
}
