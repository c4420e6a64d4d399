package proxy

import (
	"net/http"

	"shardway/proxy/cachecontrol"
	"shardway/proxy/h1"
)

// A shared cache may store a response together with its Set-Cookie field (RFC 9111 section 7.3). If it stored a
// response with the sticky cookie, all clients that receive the response from the cache would get the same key and
// share one state. Section 3 of the RFC defines which responses a shared cache may store. Therefore:
//
//   - A response that explicitly permits shared caches to store it gets no cookie. The client gets the cookie with its next response that does not.
//   - A response that says nothing may also be stored (section 4.2.2). It gets the cookie and
//     Cache-Control: private.
//   - A response that forbids storing (private, no-store) gets only the cookie.

// appendSticky appends the sticky cookie, unless the request needs none or a shared cache may store
// the response.
func (reply reply) appendSticky(dst []byte, res *h1.Response) []byte {
	if reply.exchange.Cookie == nil {
		return dst
	}
	switch cachecontrol.SharingOf(res, reply.server.clock.SystemTime(reply.server.clock.Now())) {
	case cachecontrol.Allowed:
		return dst
	case cachecontrol.Unspecified:
		if res.Status() >= http.StatusOK {
			dst = append(dst, "Cache-Control: private\r\n"...)
		}
	case cachecontrol.Forbidden:
	}
	return reply.appendCookie(dst)
}
