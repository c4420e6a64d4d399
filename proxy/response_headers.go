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
	"shardway/proxy/wsrelay"
)

// editHeaders returns the changes to the header of a response on its way to the client.
func (r reply) editHeaders(dest *route.Route, res *h1.Response) *h1.Edit {
	edit := &r.headerEdit
	*edit = h1.Edit{Drop: h1.FieldSetOf(h1.FieldShardwayMap, h1.FieldShardwayRefused, h1.FieldShardwayHold), Date: r.server.date()}
	if dest.Kind == route.Local {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayError) // only the proxy itself may set this field
	}
	r.extraLines = r.extraLines[:0]
	if r.ingress == "" || dest.Kind == route.Local && r.server.options.Handler != nil {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayStream) // the ingress is the only consumer of this field
	}
	if r.ingress == "" && wsrelay.IsRequest(&r.req) {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayOther) // the client must not see the WebSocket headers of Shardway
	}
	if r.ingress == "" {
		r.addDebugHeaders(dest, edit, res)
	}
	edit.Extra = r.extraLines
	if r.isEarly(res) || !r.canKeepConn() {
		r.exchange.keepAlive, edit.Close = false, true
	}
	if r.req.Minor() == 0 {
		r.adaptToHTTP10(res, edit)
	}
	return edit
}

// adaptToHTTP10 adapts a response to an HTTP/1.0 client, which does not understand chunked encoding.
func (r reply) adaptToHTTP10(res *h1.Response, edit *h1.Edit) {
	edit.ToHTTP10 = true
	switch res.Body.Kind() {
	case h1.Chunked, h1.UntilClose:
		r.exchange.keepAlive = false
	case h1.NoBody, h1.Length:
		edit.KeepAlive = r.canKeepConn()
	}
}

// canKeepConn reports whether the connection can carry another request after the response, as far as
// that is known when the response begins.
func (r reply) canKeepConn() bool {
	if !r.exchange.keepAlive || r.isDraining() {
		return false
	}
	return r.body.IsSending() || r.req.Body.Done() || r.canDrainBody()
}

// isEarly reports whether a response begins before the request body has been sent completely, and
// must end the connection. It is unknown how much more of the body the app accepts and the client
// sends, so the connection cannot be reused (RFC 9112 section 9.6). A streamed success may continue
// together with its request body. It ends the connection only if it ends before the body.
func (r reply) isEarly(res *h1.Response) bool {
	if !r.body.IsSending() || r.body.IsSendingEnd() {
		return false
	}
	kind := res.Body.Kind()
	streamed := kind == h1.Chunked || kind == h1.UntilClose
	return !streamed || res.Status() >= 300 || !res.KeepAlive()
}

// drainLimit is the maximum number of unread body bytes that are read and discarded, so that the
// connection can be kept.
const drainLimit = 64 << 10

// drainBody reads and discards the rest of the request body, if that is worthwhile. It reports
// whether the connection can be kept.
func (r reply) drainBody() bool {
	body := &r.req.Body
	if body.Done() {
		return true
	}
	if r.body.Unreadable || !r.canDrainBody() {
		return false
	}
	timeouts := r.conn.Timeouts()
	shortTimeouts := timeouts // the minimum rate still applies
	shortTimeouts.Body = min(timeouts.Body, time.Second)
	r.conn.SetTimeouts(shortTimeouts)
	err := body.Drain(drainLimit)
	r.conn.SetTimeouts(timeouts)
	return err == nil
}

// canDrainBody reports whether reading the rest of the body is worthwhile. The rest must not be known to
// be too long. In addition, the client must not be waiting for a 100 Continue before it sends the
// body.
func (r reply) canDrainBody() bool {
	body := &r.req.Body
	return body.Remaining() <= drainLimit && (!r.req.ExpectsContinue() || body.HasStarted())
}

// addDebugHeaders adds the headers of Settings.DebugHeaders and the sticky cookie to a response for a
// client.
func (r reply) addDebugHeaders(dest *route.Route, edit *h1.Edit, res *h1.Response) {
	if r.settings.DebugHeaders {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayNode, h1.FieldShardwayShard)
		node := r.server.options.Node
		if dest.Kind == route.Remote {
			node = dest.Node
		}
		r.extraLines = append(r.extraLines, lineNode...)
		r.extraLines = append(r.extraLines, node...)
		r.extraLines = append(r.extraLines, "\r\n"...)
		if !r.exchange.Keyless {
			r.extraLines = append(r.extraLines, lineShard...)
			r.extraLines = strconv.AppendUint(r.extraLines, uint64(r.exchange.shard), 10)
			r.extraLines = append(r.extraLines, "\r\n"...)
		}
		if r.exchange.Minted {
			edit.Drop |= h1.FieldSetOf(h1.FieldShardwayKey)
			r.extraLines = append(r.extraLines, lineKey...)
			r.extraLines = append(r.extraLines, r.exchange.Key...)
			r.extraLines = append(r.extraLines, "\r\n"+lineMinted...)
		}
	}
	r.extraLines = r.appendSticky(r.extraLines, res)
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
	cookie.SetSecure(r.clientUsesTLS())
	dst = append(dst, "Set-Cookie: "...)
	dst = append(dst, cookie.Cookie()...)
	return append(dst, "\r\n"...)
}

// clientUsesTLS reports whether the client uses https, either to this node or, according to a trusted
// proxy, to the first proxy.
func (r reply) clientUsesTLS() bool {
	if r.clientAddr.Proto == "https" {
		return true
	}
	firstProto, _, _ := bytes.Cut(r.req.Known(h1.FieldXForwardedProto), []byte(","))
	return r.clientAddr.Trusted && strings.EqualFold(string(bytes.TrimSpace(firstProto)), "https")
}
