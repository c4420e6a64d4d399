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

// head returns the changes to the header of a response on its way to the client.
func (r reply) head(dest *route.Route, res *h1.Response) *h1.Edit {
	edit := &r.edit
	*edit = h1.Edit{Drop: h1.FieldSetOf(h1.FieldShardwayMap, h1.FieldShardwayRefused, h1.FieldShardwayHold), Date: r.server.date()}
	if dest.Kind == route.Local {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayError) // only the proxy itself may set this field
	}
	r.extra = r.extra[:0]
	if r.ingress == "" || dest.Kind == route.Local && r.server.options.Handler != nil {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayStream) // the ingress is the only consumer of this field
	}
	if r.ingress == "" && isWebSocketRequest(&r.req) {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayOther) // the client must not see the WebSocket headers of Shardway
	}
	if r.ingress == "" {
		r.expose(dest, edit, res)
	}
	edit.Extra = r.extra
	if r.early(res) || !r.mayKeep() {
		r.exchange.keep, edit.Close = false, true
	}
	if r.req.Minor() == 0 {
		r.editForOld(res, edit)
	}
	return edit
}

// editForOld adapts a response to an HTTP/1.0 client, which does not understand chunked encoding.
func (r reply) editForOld(res *h1.Response, edit *h1.Edit) {
	edit.ToHTTP10 = true
	switch res.Body.Kind() {
	case h1.Chunked, h1.UntilClose:
		r.exchange.keep = false
	case h1.NoBody, h1.Length:
		edit.KeepAlive = r.mayKeep()
	}
}

// mayKeep reports whether the connection can carry another request after the response, as far as
// that is known when the response begins.
func (r reply) mayKeep() bool {
	if !r.exchange.keep || r.draining() {
		return false
	}
	return r.body.running || r.req.Body.Done() || r.drains()
}

// early reports whether a response begins before the request body has been sent completely, and
// must end the connection. It is unknown how much more of the body the app accepts and the client
// sends, so the connection cannot be reused (RFC 9112 section 9.6). A streamed success may continue
// together with its request body. It ends the connection only if it ends before the body.
func (r reply) early(res *h1.Response) bool {
	if !r.body.running || r.body.ending.Load() {
		return false
	}
	kind := res.Body.Kind()
	streamed := kind == h1.Chunked || kind == h1.UntilClose
	return !streamed || res.Status() >= 300 || !res.KeepAlive()
}

// drainLimit is the maximum number of unread body bytes that are read and discarded, so that the
// connection can be kept.
const drainLimit = 64 << 10

// drained reads and discards the rest of the request body, if that is worthwhile. It reports
// whether the connection can be kept.
func (r reply) drained() bool {
	body := &r.req.Body
	if body.Done() {
		return true
	}
	if r.body.broken || !r.drains() {
		return false
	}
	usual := r.conn.Timeouts()
	hasty := usual // the minimum rate still applies
	hasty.Body = min(usual.Body, time.Second)
	r.conn.SetTimeouts(hasty)
	err := body.Drain(drainLimit)
	r.conn.SetTimeouts(usual)
	return err == nil
}

// drains reports whether reading the rest of the body is worthwhile. The rest must not be known to
// be too long. In addition, the client must not be waiting for a 100 Continue before it sends the
// body.
func (r reply) drains() bool {
	body := &r.req.Body
	return body.Remaining() <= drainLimit && (!r.req.ExpectsContinue() || body.HasStarted())
}

// expose adds the headers of Settings.DebugHeaders and the sticky cookie to a response for a
// client.
func (r reply) expose(dest *route.Route, edit *h1.Edit, res *h1.Response) {
	if r.settings.DebugHeaders {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayNode, h1.FieldShardwayShard)
		node := r.server.options.Node
		if dest.Kind == route.Remote {
			node = dest.Node
		}
		r.extra = append(r.extra, lineNode...)
		r.extra = append(r.extra, node...)
		r.extra = append(r.extra, "\r\n"...)
		if !r.exchange.Keyless {
			r.extra = append(r.extra, lineShard...)
			r.extra = strconv.AppendUint(r.extra, uint64(r.exchange.shard), 10)
			r.extra = append(r.extra, "\r\n"...)
		}
		if r.exchange.Minted {
			edit.Drop |= h1.FieldSetOf(h1.FieldShardwayKey)
			r.extra = append(r.extra, lineKey...)
			r.extra = append(r.extra, r.exchange.Key...)
			r.extra = append(r.extra, "\r\n"+lineMinted...)
		}
	}
	r.extra = r.appendSticky(r.extra, res)
}

// appendCookie appends the sticky cookie.
func (r reply) appendCookie(dst []byte) []byte {
	cookie := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(cookie)
	cookie.SetKey(shardkey.StickyCookie)
	cookie.SetValueBytes(r.exchange.Cookie)
	cookie.SetPath("/")
	cookie.SetHTTPOnly(true)
	cookie.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	cookie.SetSecure(r.overTLS())
	dst = append(dst, "Set-Cookie: "...)
	dst = append(dst, cookie.Cookie()...)
	return append(dst, "\r\n"...)
}

// overTLS reports whether the client uses https, either to this node or, according to a trusted
// proxy, to the first proxy.
func (r reply) overTLS() bool {
	if r.from.Proto == "https" {
		return true
	}
	first, _, _ := bytes.Cut(r.req.Known(h1.FieldXForwardedProto), []byte(","))
	return r.from.Trusted && strings.EqualFold(string(bytes.TrimSpace(first)), "https")
}
