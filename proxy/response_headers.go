package proxy

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

// head says what changes in an answer on its way to the client.
func (r reply) head(dest *route.Route, res *h1.Response) *h1.Edit {
	e := &r.edit
	*e = h1.Edit{Drop: h1.Of(h1.FieldShardwayMap, h1.FieldShardwayRefused, h1.FieldShardwayHold), Date: r.s.date()}
	if dest.Kind == route.Local {
		e.Drop |= h1.Of(h1.FieldShardwayError) // the proxy's own word
	}
	r.extra = r.extra[:0]
	if r.ingress == "" || dest.Kind == route.Local && r.s.o.Handler != nil {
		e.Drop |= h1.Of(h1.FieldShardwayStream) // the app's word is for the ingress
	}
	if r.ingress == "" && isWebSocketRequest(&r.req) {
		e.Drop |= h1.Of(h1.FieldShardwayOther) // so are those on sockets
	}
	if r.ingress == "" {
		r.expose(dest, e, res)
	}
	e.Extra = r.extra
	if r.early(res) || !r.mayKeep() {
		r.x.keep, e.Close = false, true
	}
	if r.req.Minor() == 0 {
		r.editForOld(res, e)
	}
	return e
}

// editForOld frames an answer for an HTTP/1.0 client, which knows no chunks.
func (r reply) editForOld(res *h1.Response, e *h1.Edit) {
	e.Old = true
	switch res.Body.Kind() {
	case h1.Chunked, h1.UntilClose:
		r.x.keep = false
	case h1.NoBody, h1.Length:
		e.KeepAlive = r.mayKeep()
	}
}

// mayKeep reports whether the connection may carry another request after this
// one's answer, as far as is known when the answer begins.
func (r reply) mayKeep() bool {
	if !r.x.keep || r.draining() {
		return false
	}
	return r.body.running || r.req.Body.Done() || r.drains()
}

// early reports an answer that does not wait for the rest of the request: how much
// of that the app will take, and the client send, nobody knows, so the connection
// ends with it (RFC 9112 section 9.6). A success that is being streamed may go along
// with what it answers, and ends the connection only if it ends first.
func (r reply) early(res *h1.Response) bool {
	if !r.body.running || r.body.ending.Load() {
		return false
	}
	kind := res.Body.Kind()
	streamed := kind == h1.Chunked || kind == h1.UntilClose
	return !streamed || res.Status() >= 300 || !res.KeepAlive()
}

// drainLimit is how much of a body that nobody wants is read, so that the
// connection can go on.
const drainLimit = 64 << 10

// drained reports whether what is left of the request's body has been read away, so that
// the connection can go on.
func (r reply) drained() bool {
	body := &r.req.Body
	if body.Done() {
		return true
	}
	if r.body.broken || !r.drains() {
		return false
	}
	usual := r.conn.Timeouts()
	hasty := usual // the rate stays: this is a body as any other
	hasty.Body = min(usual.Body, time.Second)
	r.conn.SetTimeouts(hasty)
	err := body.Drain(drainLimit)
	r.conn.SetTimeouts(usual)
	return err == nil
}

// drains reports whether the rest of the body may be worth reading away: it is
// not known to be too long, and not one that the client may never send.
func (r reply) drains() bool {
	body := &r.req.Body
	return body.Remaining() <= drainLimit && (!r.req.Expects() || body.Begun())
}

// expose adds to an answer for a client what Options.DebugHeaders and the sticky
// cookie ask for.
func (r reply) expose(dest *route.Route, e *h1.Edit, res *h1.Response) {
	if r.set.DebugHeaders {
		e.Drop |= h1.Of(h1.FieldShardwayNode, h1.FieldShardwayShard)
		node := r.s.o.Node
		if dest.Kind == route.Remote {
			node = dest.Node
		}
		r.extra = append(r.extra, lineNode...)
		r.extra = append(r.extra, node...)
		r.extra = append(r.extra, "\r\n"...)
		if !r.x.Keyless {
			r.extra = append(r.extra, lineShard...)
			r.extra = strconv.AppendUint(r.extra, uint64(r.x.shard), 10)
			r.extra = append(r.extra, "\r\n"...)
		}
		if r.x.Minted {
			e.Drop |= h1.Of(h1.FieldShardwayKey)
			r.extra = append(r.extra, lineKey...)
			r.extra = append(r.extra, r.x.Key...)
			r.extra = append(r.extra, "\r\n"+lineMinted...)
		}
	}
	r.extra = r.appendSticky(r.extra, res)
}

// appendCookie appends the sticky cookie.
func (r reply) appendCookie(b []byte) []byte {
	k := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(k)
	k.SetKey(shardkey.StickyCookie)
	k.SetValueBytes(r.x.Cookie)
	k.SetPath("/")
	k.SetHTTPOnly(true)
	k.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	k.SetSecure(r.overTLS())
	b = append(b, "Set-Cookie: "...)
	b = append(b, k.Cookie()...)
	return append(b, "\r\n"...)
}

// overTLS reports whether the client came by https, here or, as a trusted proxy
// says, to the first of them.
func (r reply) overTLS() bool {
	if r.from.Proto == "https" {
		return true
	}
	first, _, _ := bytes.Cut(r.req.Known(h1.FieldXForwardedProto), []byte(","))
	return r.from.Trusted && strings.EqualFold(string(bytes.TrimSpace(first)), "https")
}
