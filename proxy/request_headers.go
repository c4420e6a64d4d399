package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// Names of Shardway's own headers, as beginnings of header lines.
const (
	lineShard    = "Shardway-Shard: "
	lineEpoch    = "Shardway-Epoch: "
	lineNode     = "Shardway-Node: "
	lineKey      = "Shardway-Key: "
	lineMap      = "Shardway-Map: "
	lineMinted   = headerMinted + ": 1\r\n"
	lineContinue = headerContinue + ": "
	lineTries    = headerTries + ": "
)

// usualExtra is the initial capacity for added header lines. It suffices for most requests.
const usualExtra = 512

// requestWriter writes the request header for the app or for another node.
type requestWriter struct{ *requestState }

// writeHeader writes the header of the request into the buffer of the attempt's connection. It
// removes Shardway headers of the client. For another node it adds the routing epochs. For the app
// it adds the ownership epoch and the node.
func (f requestWriter) writeHeader(p *attempt) *h1.Writer {
	e := &f.edit
	*e = h1.Edit{Drop: h1.Shardway | h1.Lookalikes, Upgrade: f.req.RequestsUpgrade(), DropExpect: len(f.body.buffered) > 0 || f.req.Body.Done()}
	if f.extra == nil {
		f.extra = make([]byte, 0, usualExtra)
	}
	b := f.extra[:0]
	if f.ingress != "" {
		// Forward the key, the shard and the client's address to the app as the ingress has set
		// them.
		if !f.exchange.Keyless {
			e.Drop &^= h1.FieldSetOf(h1.FieldShardwayKey, h1.FieldShardwayShard)
		}
		if f.exchange.Minted {
			b = append(b, lineMinted...)
		}
		if f.exchange.wasResumed > 0 {
			b = appendResumed(b, f.exchange.wasResumed)
		}
		e.DropExpect = e.DropExpect || f.exchange.onDemand && !f.exchange.clientExpects
		b = f.appendOwner(b, p.epoch)
	} else {
		b = f.from.AppendHeaders(b, &f.req, e, f.settings.Forwarded)
		b = f.exchange.appendRequestID(b, &f.req, e)
		if len(f.req.Host()) == 0 {
			e.Host = f.from.LocalHost() // an HTTP/1.0 request may have no Host, but apps and other nodes require one
		}
		if !f.exchange.Keyless {
			b = append(b, lineShard...)
			b = strconv.AppendUint(b, uint64(f.exchange.shard), 10)
			b = append(b, "\r\n"+lineKey...)
			b = appendFieldValue(b, f.exchange.Key)
			b = append(b, "\r\n"...)
		}
		if f.exchange.Minted {
			b = append(b, lineMinted...)
		}
		if k := f.exchange.resumed; k != nil {
			e.Drop |= h1.FieldSetOf(h1.FieldLastEventID)
			id, _ := p.slot.events.scan.ID()
			b = k.appendHeaders(b, id)
		}
		if p.route.Kind == route.Remote {
			b = f.appendPeer(b, p)
			if f.exchange.Keyless {
				b = append(b, lineShard+shardNone+"\r\n"...)
			}
		} else {
			b = f.appendOwner(b, p.epoch)
		}
	}
	b = f.appendSession(b)
	f.extra, e.Extra = b, b
	if p.conn.inproc != nil {
		e.Kind, e.DropExpect = h1.NoBody, true // handlerConn passes the body to the handler
	}
	return p.conn.WriteRequestHeader(&f.req, e)
}

// shardNone is the value of Shardway-Shard between nodes for a request without a key. The app of
// any node may serve it.
const shardNone = "none"

// appendOwner appends the headers that only the owner of the shard sets for its app.
func (f requestWriter) appendOwner(b []byte, epoch uint64) []byte {
	if !f.exchange.Keyless {
		b = append(b, lineEpoch...)
		b = strconv.AppendUint(b, epoch, 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, lineNode...)
	b = append(b, f.server.options.Node...)
	return append(b, "\r\n"...)
}

// appendPeer appends the headers for another node: the epochs of the routing table and the number
// of tries. For a PUT or DELETE that must run in one ownership epoch, it adds that epoch.
// headerContinue tells the owner whether the body is sent on demand. It also asks for an early
// response if other requests wait to learn whether the app accepts this one.
func (f requestWriter) appendPeer(b []byte, p *attempt) []byte {
	b = append(b, lineMap...)
	b = append(b, p.table.MapHeaderValue()...)
	b = append(b, "\r\n"...)
	b = f.exchange.appendTries(b)
	if f.exchange.safety == idempotentMethod && p.epoch != 0 {
		b = append(b, lineEpoch...)
		b = strconv.AppendUint(b, p.epoch, 10)
		b = append(b, "\r\n"...)
	}
	switch {
	case !p.bodyOnDemand && !p.conn.pool.wantsEarlyAccept():
		return b
	case !p.bodyOnDemand: // the final response may take long
		return append(b, lineContinue+continueTell+"\r\n"...)
	}
	if f.req.ExpectsContinue() && len(f.body.buffered) == 0 {
		return append(b, lineContinue+continueClient+"\r\n"...)
	}
	return append(b, "Expect: 100-continue\r\n"+lineContinue+continueNode+"\r\n"...)
}

// headerMinted means that the key was generated for this request.
const headerMinted = "Shardway-Minted"

// headerTries contains the number of attempts after which the request may have run. An owner
// continues to count from this value, and an ingress from the value in a refusal. Without the
// header there were no such attempts.
const headerTries = "Shardway-Tries"

func (x *exchange) appendTries(b []byte) []byte {
	if x.tries == 0 {
		return b
	}
	b = append(b, lineTries...)
	b = strconv.AppendInt(b, int64(x.tries), 10)
	return append(b, "\r\n"...)
}

// triesOf returns the value of headerTries, or 0 if it is missing.
func triesOf(h *h1.Header) int {
	if !h.Has(h1.FieldShardwayOther) {
		return 0
	}
	n, _ := route.ParseUint(h.Value(headerTries))
	return int(min(n, maxTries))
}

// Values of headerContinue in requests.
const (
	continueClient = "client" // the Expect header is the client's, and is forwarded to the app
	continueNode   = "node"   // the Expect header was added by the ingress
	continueTell   = "tell"   // there is no Expect header: the body has been sent, and the ingress only wants to learn that the app accepts the request
)

// idBytes returns the generated request id.
func (x *exchange) idBytes() (raw [16]byte) {
	binary.BigEndian.PutUint64(raw[:8], x.id[0])
	binary.BigEndian.PutUint64(raw[8:], x.id[1])
	return raw
}

// requestID returns the X-Request-Id of the client, or the generated one. It returns nil if there
// is none.
func (x *exchange) requestID(req *h1.Request) []byte {
	if v := req.Known(h1.FieldXRequestID); len(v) > 0 {
		return v
	}
	if x.id == [2]uint64{} {
		return nil
	}
	raw := x.idBytes()
	return hex.AppendEncode(nil, raw[:])
}

// appendRequestID appends a generated X-Request-Id, unless the client has sent one. The id has 128
// random bits, and stays the same when the request is sent again.
func (x *exchange) appendRequestID(b []byte, req *h1.Request, e *h1.Edit) []byte {
	if len(req.Known(h1.FieldXRequestID)) > 0 {
		return b
	}
	e.Drop |= h1.FieldSetOf(h1.FieldXRequestID) // remove an empty one
	if x.id == [2]uint64{} {
		x.id = [2]uint64{rand.Uint64(), rand.Uint64()} //nolint:gosec // the id distinguishes requests and protects no secret
	}
	raw := x.idBytes()
	b = append(b, "X-Request-Id: "...)
	b = hex.AppendEncode(b, raw[:])
	return append(b, "\r\n"...)
}

// appendFieldValue appends a key as a header value. Visible ASCII characters except %, and spaces
// that are not at an end, stay unchanged. All other bytes are percent-encoded. Percent-decoding
// always restores the key.
func appendFieldValue(b, key []byte) []byte {
	for i, c := range key {
		inner := i > 0 && i < len(key)-1
		if c > ' ' && c < 0x7f && c != '%' || c == ' ' && inner {
			b = append(b, c)
			continue
		}
		const digits = "0123456789ABCDEF"
		b = append(b, '%', digits[c>>4], digits[c&15])
	}
	return b
}
