package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"

	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

// Names of Shardway's own headers, as beginnings of header lines.
const (
	lineShard    = "Shardway-Shard: "
	lineEpoch    = "Shardway-Epoch: "
	lineNode     = "Shardway-Node: "
	lineInstance = "Shardway-Instance: " // only if the node has several app instances
	lineKey      = "Shardway-Key: "
	lineMap      = "Shardway-Map: "
	lineMinted   = headerMinted + ": 1\r\n"
	lineContinue = headerContinue + ": "
	lineTries    = headerTries + ": "
)

// usualExtra is the initial capacity for added header lines, which suffices for most requests.
const usualExtra = 512

// requestWriter writes the request header for the app or for another node.
type requestWriter struct{ *requestState }

// writeHeader writes the header of the request into the buffer of the attempt's connection. It
// removes Shardway headers of the client. For another node it adds the routing epochs. For the app
// it adds the ownership epoch and the node.
func (rw requestWriter) writeHeader(attempt *attempt) *h1.Writer {
	edit := &rw.headerEdit
	bodyHasArrived := len(rw.body.Buffered) > 0 || rw.req.Body.Done() // at least in part, so no 100 Continue is needed
	*edit = h1.Edit{Drop: h1.Shardway | h1.Lookalikes, Upgrade: rw.req.RequestsUpgrade(), DropExpect: bodyHasArrived}
	if rw.extraLines == nil {
		rw.extraLines = make([]byte, 0, usualExtra)
	}
	dst := rw.extraLines[:0]
	if rw.ingress == "" {
		dst = rw.appendAtIngress(dst, edit, attempt)
	} else {
		dst = rw.appendAtOwner(dst, edit, attempt)
	}
	dst = rw.appendSession(dst)
	if found := rw.exchange.route; found != nil && found.requestHeaders != nil && attempt.route.Kind == route.Local {
		dst = rw.applyRules(dst, edit, found.requestHeaders)
	}
	rw.extraLines, edit.Extra = dst, dst
	if attempt.conn.InProcess {
		edit.Kind, edit.DropExpect = h1.NoBody, true // handlerConn passes the body to the handler
	}
	return attempt.conn.WriteRequestHeader(&rw.req, edit)
}

// appendAtIngress appends the headers for a request from a client of this node, on its way to the
// app or the owner.
func (rw requestWriter) appendAtIngress(dst []byte, edit *h1.Edit, attempt *attempt) []byte {
	dst = rw.clientAddr.AppendHeaders(dst, &rw.req, edit, rw.settings.Forwarded)
	dst = rw.exchange.appendRequestID(dst, &rw.req, edit)
	if rw.exchange.Wrapped != nil {
		edit.Replace = rw.exchange.Wrapped.Stripped()
	}
	if len(rw.req.Host()) == 0 {
		edit.Host = rw.clientAddr.LocalHost() // an HTTP/1.0 request may have no Host, but apps and other nodes require one
	}
	if !rw.exchange.Keyless {
		dst = append(dst, lineShard...)
		dst = strconv.AppendUint(dst, uint64(rw.exchange.shardInService()), 10)
		dst = append(dst, "\r\n"+lineKey...)
		dst = shardkey.AppendHeaderValue(dst, rw.exchange.Key)
		dst = append(dst, "\r\n"...)
	}
	dst = rw.exchange.appendService(dst)
	if rw.exchange.Minted {
		dst = append(dst, lineMinted...)
	}
	if rw.exchange.accepted != nil {
		edit.Drop |= h1.FieldSetOf(h1.FieldSecWebSocketExtensions) // the node negotiated none
	}
	if stream := rw.exchange.eventStream; stream != nil {
		edit.Drop |= h1.FieldSetOf(h1.FieldLastEventID)
		dst = stream.AppendHeaders(dst, attempt.slot.Events.LastEventID())
	}
	if attempt.route.Kind == route.Local {
		return rw.appendOwner(dst, attempt)
	}
	dst = rw.appendPeer(dst, attempt)
	if rw.exchange.Keyless {
		dst = append(dst, lineShard+shardNone+"\r\n"...)
	}
	return dst
}

// appendAtOwner appends the headers for a forwarded request, on its way to the app of this node. The
// app receives the key, the shard and the client's address as the ingress has set them.
func (rw requestWriter) appendAtOwner(dst []byte, edit *h1.Edit, attempt *attempt) []byte {
	if !rw.exchange.Keyless {
		edit.Drop &^= h1.FieldSetOf(h1.FieldShardwayKey, h1.FieldShardwayShard)
	}
	dst = rw.exchange.appendService(dst)
	if rw.exchange.Minted {
		dst = append(dst, lineMinted...)
	}
	if rw.exchange.senderResumeCount > 0 {
		dst = eventrelay.AppendResumed(dst, rw.exchange.senderResumeCount)
	}
	onlyIngressExpectsContinue := rw.exchange.ingressHoldsBody && !rw.exchange.clientExpectsContinue
	if onlyIngressExpectsContinue {
		edit.DropExpect = true
	}
	return rw.appendOwner(dst, attempt)
}

// shardNone is the value of Shardway-Shard between nodes for a request without a key. The app of
// any node may serve it.
const shardNone = "none"

// appendOwner appends the headers that only the owner of the shard sets for its app.
func (rw requestWriter) appendOwner(dst []byte, attempt *attempt) []byte {
	if !rw.exchange.Keyless {
		dst = append(dst, lineEpoch...)
		dst = strconv.AppendUint(dst, attempt.epoch, 10)
		dst = append(dst, "\r\n"...)
	}
	if rw.server.upstreams.HasInstances() {
		rw.server.upstreams.CountRequest(attempt.route.Instance)
		dst = append(dst, lineInstance...)
		dst = strconv.AppendUint(dst, uint64(attempt.route.Instance)+1, 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, lineNode...)
	dst = append(dst, rw.server.options.Node...)
	return append(dst, "\r\n"...)
}

// appendPeer appends the headers for another node: the epochs of the routing table and the number
// of tries. For a PUT or DELETE that is bound to one ownership epoch, it adds that epoch.
func (rw requestWriter) appendPeer(dst []byte, attempt *attempt) []byte {
	dst = append(dst, lineMap...)
	dst = append(dst, attempt.table.MapHeaderValue()...)
	dst = append(dst, "\r\n"...)
	dst = rw.exchange.appendTries(dst)
	if rw.exchange.safety == idempotentMethod && attempt.epoch != 0 {
		dst = append(dst, lineEpoch...)
		dst = strconv.AppendUint(dst, attempt.epoch, 10)
		dst = append(dst, "\r\n"...)
	}
	return rw.appendContinue(dst, attempt)
}

// appendContinue appends headerContinue if this node asks the owner for early acceptance. Either this node
// holds the body back until then, or other requests wait until the app accepts this one.
func (rw requestWriter) appendContinue(dst []byte, attempt *attempt) []byte {
	if !attempt.bodyHeldBack {
		if attempt.conn.Pool.WantsEarlyAccept() { // the final response may take long
			return append(dst, lineContinue+continueAcceptance+"\r\n"...)
		}
		return dst
	}
	clientExpectsContinue := rw.req.ExpectsContinue() && len(rw.body.Buffered) == 0
	if clientExpectsContinue {
		return append(dst, lineContinue+continueClient+"\r\n"...)
	}
	return append(dst, "Expect: 100-continue\r\n"+lineContinue+continueNode+"\r\n"...)
}

// headerMinted marks a key that was generated for this request.
const headerMinted = "Shardway-Minted"

// headerTries contains the number of attempts after which the request may have run. An owner
// continues counting from this value, and an ingress from the value in a refusal. If the header is
// missing, there were no such attempts.
const headerTries = "Shardway-Tries"

// appendTries appends headerTries, if the request may have run.
func (exchange *exchange) appendTries(dst []byte) []byte {
	if exchange.tries == 0 {
		return dst
	}
	dst = append(dst, lineTries...)
	dst = strconv.AppendInt(dst, int64(exchange.tries), 10)
	return append(dst, "\r\n"...)
}

// triesOf returns the value of headerTries, capped at maxTries, or 0 if the header is missing.
func triesOf(header *h1.Header) int {
	if !header.Has(h1.FieldShardwayOther) {
		return 0
	}
	n, _ := route.ParseUint(header.Value(headerTries))
	return int(min(n, maxTries))
}

// Values of headerContinue in requests.
const (
	continueClient     = "client" // the client sent the Expect header, and the app receives it
	continueNode       = "node"   // the ingress added the Expect header
	continueAcceptance = "tell"   // no Expect header: the ingress sends the body at once and only needs the acceptance
)

// idBytes returns the generated request id.
func (exchange *exchange) idBytes() (raw [16]byte) {
	binary.BigEndian.PutUint64(raw[:8], exchange.generatedID[0])
	binary.BigEndian.PutUint64(raw[8:], exchange.generatedID[1])
	return raw
}

// requestID returns the X-Request-Id of the client, or the generated one. It returns nil if there
// is none.
func (exchange *exchange) requestID(req *h1.Request) []byte {
	if value := req.Known(h1.FieldXRequestID); len(value) > 0 {
		return value
	}
	if exchange.generatedID == [2]uint64{} {
		return nil
	}
	raw := exchange.idBytes()
	return hex.AppendEncode(nil, raw[:])
}

// appendRequestID appends a generated X-Request-Id, unless the client has sent one. The id has 128
// random bits, and stays the same when the request is retried.
func (exchange *exchange) appendRequestID(dst []byte, req *h1.Request, edit *h1.Edit) []byte {
	if len(req.Known(h1.FieldXRequestID)) > 0 {
		return dst
	}
	edit.Drop |= h1.FieldSetOf(h1.FieldXRequestID) // remove an empty one
	if exchange.generatedID == [2]uint64{} {
		exchange.generatedID = [2]uint64{rand.Uint64(), rand.Uint64()} //nolint:gosec // the ID distinguishes requests and protects no secret
	}
	raw := exchange.idBytes()
	dst = append(dst, "X-Request-Id: "...)
	dst = hex.AppendEncode(dst, raw[:])
	return append(dst, "\r\n"...)
}

// appendSession appends the headers of the request's session, if it has one.
func (rw requestWriter) appendSession(dst []byte) []byte {
	switch session := rw.exchange.session; {
	case session == nil:
		return dst
	case rw.ingress != "" || session.Relays == 0:
		return session.AppendHeaders(dst, session.ResumeAttempts)
	default:
		return session.AppendHeaders(dst, session.ResumeAttempts+1)
	}
}
