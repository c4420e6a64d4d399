package proxy

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/keysource"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// editHeaders returns the changes to the header of a response on its way to the client. It also decides whether to
// keep the client's connection after the response. The result is valid until the next call.
func (reply reply) editHeaders(dest *route.Route, res *h1.Response) *h1.Edit {
	edit := &reply.headerEdit
	*edit = h1.Edit{Drop: reply.droppedFields(dest), Date: reply.server.clock.Date()}
	reply.extraLines = reply.extraLines[:0]
	if reply.ingress == "" {
		reply.addDebugHeaders(dest, edit)
		reply.extraLines = reply.appendSticky(reply.extraLines, res)
		if reply.exchange.Wrapped != nil {
			reply.wrapFields(res, edit)
		}
	}
	edit.Extra = reply.extraLines
	if reply.isEarly(res) || !reply.canKeepConn() {
		reply.exchange.keepAlive, edit.Close = false, true
	}
	if reply.req.Minor() == 0 {
		reply.adaptToHTTP10(res, edit)
	}
	return edit
}

// wrapFields adds suffixes to the session ids in a response for a client.
func (reply reply) wrapFields(res *h1.Response, edit *h1.Edit) {
	replace, oversized := reply.exchange.Wrapped.Response(res, reply.server.clock.SystemTime(reply.server.clock.Now()))
	edit.Replace = replace
	reply.server.metrics.OversizedCookies.Add(uint64(oversized))
}

// droppedFields returns the header fields of a response that its receiver, a client or another node,
// must not see.
func (reply reply) droppedFields(dest *route.Route) h1.FieldSet {
	drop := h1.FieldSetOf(h1.FieldShardwayMap, h1.FieldShardwayRefused, h1.FieldShardwayHold)
	isLocal := dest.Kind == route.Local
	if isLocal {
		drop |= h1.FieldSetOf(h1.FieldShardwayError) // only the proxy may set this field
	}
	isHandler := isLocal && reply.server.options.Handler != nil
	if reply.ingress == "" || isHandler {
		drop |= h1.FieldSetOf(h1.FieldShardwayStream) // the ingress is the only consumer of this field
	}
	if reply.ingress == "" && reply.req.RequestsWebSocket() {
		drop |= h1.FieldSetOf(h1.FieldShardwayOther, h1.FieldShardwayService) // the client must not see the WebSocket headers of Shardway
	}
	return drop
}

// adaptToHTTP10 adapts a response to an HTTP/1.0 client, which does not understand chunked encoding.
func (reply reply) adaptToHTTP10(res *h1.Response, edit *h1.Edit) {
	edit.ToHTTP10 = true
	switch res.Body.Kind() {
	case h1.Chunked, h1.UntilClose:
		reply.exchange.keepAlive = false
	case h1.NoBody, h1.Length:
		edit.KeepAlive = reply.canKeepConn()
	}
}

// canKeepConn reports whether the connection can carry another request after the response, as far as
// that is known when the response begins.
func (reply reply) canKeepConn() bool {
	if !reply.exchange.keepAlive || reply.isDraining() {
		return false
	}
	return reply.body.IsSending() || reply.req.Body.Done() || reply.canDrainBody()
}

// isEarly reports whether a response begins before the request body has been sent completely, and must end the
// connection. It is unknown how much more of the body the client will send and the app will accept, so the
// connection cannot be reused (RFC 9112 section 9.6). A successful response may be streamed while the request body
// continues, and ends the connection only if it ends before the body.
func (reply reply) isEarly(res *h1.Response) bool {
	bodyIsIncomplete := reply.body.IsSending() && !reply.body.IsSendingEnd()
	if !bodyIsIncomplete {
		return false
	}
	kind := res.Body.Kind()
	isStreamed := kind == h1.Chunked || kind == h1.UntilClose
	mayContinue := isStreamed && res.Status() < 300 && res.KeepAlive()
	return !mayContinue
}

// drainLimit is the maximum number of unread body bytes that are read and discarded, so that the
// connection can be kept.
const drainLimit = 64 << 10

// canDrainBody reports whether reading the rest of the body is possible and worthwhile. The rest must not be known
// to be too long, and the client must not be waiting for a 100 Continue.
func (reply reply) canDrainBody() bool {
	body := &reply.req.Body
	awaitsContinue := reply.req.ExpectsContinue() && !body.HasStarted()
	return !reply.body.Unreadable && body.Remaining() <= drainLimit && !awaitsContinue
}

// addDebugHeaders adds the headers of Settings.DebugHeaders to a response for a client. They replace fields with
// the same name in the app's response.
func (reply reply) addDebugHeaders(dest *route.Route, edit *h1.Edit) {
	if !reply.settings.DebugHeaders {
		return
	}
	edit.Drop |= h1.FieldSetOf(h1.FieldShardwayNode, h1.FieldShardwayShard)
	node := reply.server.options.Node
	if dest.Kind == route.Remote {
		node = dest.Node
	}
	reply.extraLines = append(reply.extraLines, lineNode...)
	reply.extraLines = append(reply.extraLines, node...)
	reply.extraLines = append(reply.extraLines, "\r\n"...)
	if !reply.exchange.Keyless {
		reply.extraLines = append(reply.extraLines, lineShard...)
		reply.extraLines = strconv.AppendUint(reply.extraLines, uint64(reply.exchange.shardInService()), 10)
		reply.extraLines = append(reply.extraLines, "\r\n"...)
	}
	if reply.exchange.service != "" {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayService)
		reply.extraLines = reply.exchange.appendService(reply.extraLines)
	}
	if reply.exchange.Minted {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayKey)
		reply.extraLines = append(reply.extraLines, lineKey...)
		reply.extraLines = append(reply.extraLines, reply.exchange.Key...)
		reply.extraLines = append(reply.extraLines, "\r\n"+lineMinted...)
	}
}

// appendCookie appends the sticky cookie. The key configuration determines its scope, and this node's settings
// determine its other attributes.
func (reply reply) appendCookie(dst []byte) []byte {
	scope, attributes := reply.exchange.keys.CookieScope(reply.exchange.service), &reply.serviceSettings().StickyCookie
	cookie := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(cookie)
	cookie.SetKey(scope.Name)
	cookie.SetValueBytes(reply.exchange.Cookie)
	cookie.SetPath(scope.Path)
	cookie.SetDomain(scope.Domain)
	cookie.SetMaxAge(int(attributes.MaxAge / time.Second))
	cookie.SetHTTPOnly(!attributes.AllowScripts)
	cookie.SetSameSite(sameSiteMode(attributes.SameSite))
	cookie.SetSecure(attributes.AlwaysSecure || scope.RequiresSecure() || reply.clientUsesTLS())
	dst = append(dst, "Set-Cookie: "...)
	dst = append(dst, cookie.Cookie()...)
	return append(dst, "\r\n"...)
}

// sameSiteMode converts a SameSite attribute to the type of fasthttp.
func sameSiteMode(sameSite keysource.SameSite) fasthttp.CookieSameSite {
	switch sameSite {
	case keysource.SameSiteStrict:
		return fasthttp.CookieSameSiteStrictMode
	case keysource.SameSiteNone:
		return fasthttp.CookieSameSiteNoneMode
	case keysource.SameSiteLax:
	}
	return fasthttp.CookieSameSiteLaxMode
}

// clientUsesTLS reports whether the client uses https, either to this node or, according to a trusted
// proxy, to the first proxy.
func (reply reply) clientUsesTLS() bool {
	if reply.clientAddr.Proto == "https" {
		return true
	}
	firstProto, _, _ := bytes.Cut(reply.req.Known(h1.FieldXForwardedProto), []byte(","))
	return reply.clientAddr.Trusted && strings.EqualFold(string(bytes.TrimSpace(firstProto)), "https")
}
