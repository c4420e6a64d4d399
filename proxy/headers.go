package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
)

// Headers of our own, as lines to append to.
const (
	lineShard    = "Shardway-Shard: "
	lineEpoch    = "Shardway-Epoch: "
	lineNode     = "Shardway-Node: "
	lineKey      = "Shardway-Key: "
	lineMap      = "Shardway-Map: "
	lineContinue = headerContinue + ": "
	lineTries    = headerTries + ": "
	lineVia      = "Via: 1.1 shardway\r\n"
	lineViaOld   = "Via: 1.0 shardway\r\n"
)

// writeRequestHead puts the head of the request into the link's buffer, with
// what the next one is to know: another node by which map it was sent, the app
// whose it is.
func (c *client) writeRequestHead(p *trip) *h1.Writer {
	e := &c.edit
	*e = h1.Edit{Drop: h1.Shardway | h1.Lookalikes, Upgrade: c.req.Upgrades(), DropExpect: len(c.up.kept) > 0 || c.req.Body.Done()}
	b := c.extra[:0]
	if c.ingress != "" {
		// What the ingress said of key, shard and client goes on to the app.
		if !c.x.keyless {
			e.Drop &^= h1.Of(h1.FieldShardwayKey, h1.FieldShardwayShard)
		}
		e.DropExpect = e.DropExpect || c.x.onDemand && !c.x.clientExpects
		b = c.appendOwner(b, p.epoch)
	} else {
		b = c.from.appendForwarding(b, &c.req, e, c.set.Forwarded)
		b = c.x.appendRequestID(b, &c.req, e)
		if len(c.req.Host()) == 0 {
			e.Host = c.from.local // HTTP/1.0; between nodes and for the app there is one
		}
		if !c.x.keyless {
			b = append(b, lineShard...)
			b = strconv.AppendUint(b, uint64(c.x.shard), 10)
			b = append(b, "\r\n"+lineKey...)
			b = appendFieldValue(b, c.x.key)
			b = append(b, "\r\n"...)
		}
		if p.r.Kind == Remote {
			b = c.appendPeer(b, p)
			if c.x.keyless {
				b = append(b, lineShard+shardNone+"\r\n"...)
			}
		} else {
			b = c.appendOwner(b, p.epoch)
		}
	}
	c.extra, e.Extra = b, b
	if p.l.seat != nil {
		e.Kind, e.DropExpect = h1.NoBody, true // what there is of a body, the seat hands over
	}
	return p.l.WriteRequestHead(&c.req, e)
}

// shardNone is what another node is told for a shard of a request that has none,
// and that any app may answer.
const shardNone = "none"

// appendOwner appends what the app is told by the node that owns the shard.
func (c *client) appendOwner(b []byte, epoch uint64) []byte {
	if !c.x.keyless {
		b = append(b, lineEpoch...)
		b = strconv.AppendUint(b, epoch, 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, lineNode...)
	b = append(b, c.s.o.Node...)
	return append(b, "\r\n"...)
}

// appendPeer appends what another node is told: the epochs routed by, for a PUT
// or DELETE the ownership epoch it is bound to, whether the body waits, and, of one
// that asks for others, that they wait to know whether the app takes it.
func (c *client) appendPeer(b []byte, p *trip) []byte {
	b = append(b, lineMap...)
	b = append(b, p.t.mapValue...)
	b = append(b, "\r\n"...)
	b = c.x.appendTries(b)
	if c.x.safety == idempotentMethod && p.epoch != 0 {
		b = append(b, lineEpoch...)
		b = strconv.AppendUint(b, p.epoch, 10)
		b = append(b, "\r\n"...)
	}
	switch {
	case !p.demand && !p.l.pool.asks():
		return b
	case !p.demand: // what comes of it may be long in coming
		return append(b, lineContinue+continueTell+"\r\n"...)
	}
	if c.req.Expects() && len(c.up.kept) == 0 {
		return append(b, lineContinue+continueClient+"\r\n"...)
	}
	return append(b, "Expect: 100-continue\r\n"+lineContinue+continueNode+"\r\n"...)
}

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
func triesOf(h *h1.Head) int {
	if !h.Has(h1.FieldShardwayOther) {
		return 0
	}
	n, _ := parseUint(h.Value(headerTries))
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

// exposeAnswer adds to an answer for a client what Options.Expose and the sticky
// cookie ask for.
func (c *client) exposeAnswer(p *trip, e *h1.Edit) {
	if c.set.Expose {
		e.Drop |= h1.Of(h1.FieldShardwayNode, h1.FieldShardwayShard)
		node := c.s.o.Node
		if p.r.Kind == Remote {
			node = p.r.Node
		}
		c.extra = append(c.extra, lineNode...)
		c.extra = append(c.extra, node...)
		c.extra = append(c.extra, "\r\n"...)
		if !c.x.keyless {
			c.extra = append(c.extra, lineShard...)
			c.extra = strconv.AppendUint(c.extra, uint64(c.x.shard), 10)
			c.extra = append(c.extra, "\r\n"...)
		}
	}
	c.extra = c.appendCookie(c.extra)
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

// appendCookie appends the sticky cookie, if the answer has to set it.
func (c *client) appendCookie(b []byte) []byte {
	if c.x.cookie == nil {
		return b
	}
	k := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(k)
	k.SetKey(stickyCookie)
	k.SetValueBytes(c.x.cookie)
	k.SetPath("/")
	k.SetHTTPOnly(true)
	k.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	k.SetSecure(c.overTLS())
	b = append(b, "Set-Cookie: "...)
	b = append(b, k.Cookie()...)
	return append(b, "\r\n"...)
}

// overTLS reports whether the client came by https, here or, as a trusted proxy
// says, to the first of them.
func (c *client) overTLS() bool {
	if c.from.proto == "https" {
		return true
	}
	first, _, _ := bytes.Cut(c.req.Known(h1.FieldXForwardedProto), []byte(","))
	return c.from.trusted && strings.EqualFold(string(bytes.TrimSpace(first)), "https")
}
