package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// Headers of our own, as lines to append to.
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

// usualExtra has room for what most heads are given.
const usualExtra = 512

// requestWriter writes the head that a request goes on with: to the app, or to another node.
type requestWriter struct{ *requestState }

// writeHeader puts the head of the request into the link's buffer, with
// what the next one is to know: another node by which map it was sent, the app
// whose it is.
func (f requestWriter) writeHeader(p *attempt) *h1.Writer {
	e := &f.edit
	*e = h1.Edit{Drop: h1.Shardway | h1.Lookalikes, Upgrade: f.req.Upgrades(), DropExpect: len(f.body.buffered) > 0 || f.req.Body.Done()}
	if f.extra == nil {
		f.extra = make([]byte, 0, usualExtra)
	}
	b := f.extra[:0]
	if f.ingress != "" {
		// What the ingress said of key, shard and client goes on to the app.
		if !f.x.Keyless {
			e.Drop &^= h1.Of(h1.FieldShardwayKey, h1.FieldShardwayShard)
		}
		if f.x.Minted {
			b = append(b, lineMinted...)
		}
		if f.x.wasResumed > 0 {
			b = appendResumed(b, f.x.wasResumed)
		}
		e.DropExpect = e.DropExpect || f.x.onDemand && !f.x.clientExpects
		b = f.appendOwner(b, p.epoch)
	} else {
		b = f.from.AppendHeaders(b, &f.req, e, f.set.Forwarded)
		b = f.x.appendRequestID(b, &f.req, e)
		if len(f.req.Host()) == 0 {
			e.Host = f.from.LocalHost() // HTTP/1.0; between nodes and for the app there is one
		}
		if !f.x.Keyless {
			b = append(b, lineShard...)
			b = strconv.AppendUint(b, uint64(f.x.shard), 10)
			b = append(b, "\r\n"+lineKey...)
			b = appendFieldValue(b, f.x.Key)
			b = append(b, "\r\n"...)
		}
		if f.x.Minted {
			b = append(b, lineMinted...)
		}
		if k := f.x.resumed; k != nil {
			e.Drop |= h1.Of(h1.FieldLastEventID)
			id, _ := p.slot.events.scan.ID()
			b = k.appendHeaders(b, id)
		}
		if p.route.Kind == route.Remote {
			b = f.appendPeer(b, p)
			if f.x.Keyless {
				b = append(b, lineShard+shardNone+"\r\n"...)
			}
		} else {
			b = f.appendOwner(b, p.epoch)
		}
	}
	b = f.appendSession(b)
	f.extra, e.Extra = b, b
	if p.conn.inproc != nil {
		e.Kind, e.DropExpect = h1.NoBody, true // what there is of a body, the seat hands over
	}
	return p.conn.WriteRequestHeader(&f.req, e)
}

// shardNone is what another node is told for a shard of a request that has none,
// and that any app may answer.
const shardNone = "none"

// appendOwner appends what the app is told by the node that owns the shard.
func (f requestWriter) appendOwner(b []byte, epoch uint64) []byte {
	if !f.x.Keyless {
		b = append(b, lineEpoch...)
		b = strconv.AppendUint(b, epoch, 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, lineNode...)
	b = append(b, f.s.o.Node...)
	return append(b, "\r\n"...)
}

// appendPeer appends what another node is told: the epochs routed by, for a PUT
// or DELETE the ownership epoch it is bound to, whether the body waits, and, of one
// that asks for others, that they wait to know whether the app takes it.
func (f requestWriter) appendPeer(b []byte, p *attempt) []byte {
	b = append(b, lineMap...)
	b = append(b, p.table.EpochsHeader()...)
	b = append(b, "\r\n"...)
	b = f.x.appendTries(b)
	if f.x.safety == idempotentMethod && p.epoch != 0 {
		b = append(b, lineEpoch...)
		b = strconv.AppendUint(b, p.epoch, 10)
		b = append(b, "\r\n"...)
	}
	switch {
	case !p.bodyOnDemand && !p.conn.pool.wantsEarlyAccept():
		return b
	case !p.bodyOnDemand: // what comes of it may be long in coming
		return append(b, lineContinue+continueTell+"\r\n"...)
	}
	if f.req.Expects() && len(f.body.buffered) == 0 {
		return append(b, lineContinue+continueClient+"\r\n"...)
	}
	return append(b, "Expect: 100-continue\r\n"+lineContinue+continueNode+"\r\n"...)
}

// headerMinted says that the key was made for this request.
const headerMinted = "Shardway-Minted"

// headerTries tells how often a request was sent that may have run: an owner goes
// on counting from there, and an ingress from what a refusal says. Without it there
// was no such try.
const headerTries = "Shardway-Tries"

func (x *exchange) appendTries(b []byte) []byte {
	if x.tries == 0 {
		return b
	}
	b = append(b, lineTries...)
	b = strconv.AppendInt(b, int64(x.tries), 10)
	return append(b, "\r\n"...)
}

// triesOf reads headerTries.
func triesOf(h *h1.Header) int {
	if !h.Has(h1.FieldShardwayOther) {
		return 0
	}
	n, _ := route.ParseUint(h.Value(headerTries))
	return int(min(n, maxTries))
}

// Values of headerContinue in requests.
const (
	continueClient = "client" // the Expect is the client's: the app sees it
	continueNode   = "node"   // it is the ingress's
	continueTell   = "tell"   // there is none: no body waits
)

// idBytes returns the id that was made for the request.
func (x *exchange) idBytes() (raw [16]byte) {
	binary.BigEndian.PutUint64(raw[:8], x.id[0])
	binary.BigEndian.PutUint64(raw[8:], x.id[1])
	return raw
}

// requestID returns the X-Request-Id that the client gave, or that was made.
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

// appendRequestID appends X-Request-Id unless the client has given one: 128
// random bits, the same whenever the request is sent again.
func (x *exchange) appendRequestID(b []byte, req *h1.Request, e *h1.Edit) []byte {
	if len(req.Known(h1.FieldXRequestID)) > 0 {
		return b
	}
	e.Drop |= h1.Of(h1.FieldXRequestID) // an empty one
	if x.id == [2]uint64{} {
		x.id = [2]uint64{rand.Uint64(), rand.Uint64()} //nolint:gosec // it tells requests apart and keeps no secret
	}
	raw := x.idBytes()
	b = append(b, "X-Request-Id: "...)
	b = hex.AppendEncode(b, raw[:])
	return append(b, "\r\n"...)
}

// appendFieldValue appends a key as a header value: visible ASCII but % as it is,
// and spaces inside, all else percent-encoded. Percent-decoding gives the key back,
// whatever it is.
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
