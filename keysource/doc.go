// Package keysource defines where the key of a request is found.
//
// A source is a part of a request, written as in the configuration:
//
//	header:NAME   a header field; NAME is a token (RFC 9110)
//	path:N        a path segment, 1 to 64, percent-decoded
//	path:/PATTERN a part of the path; see Pattern
//	query:NAME    a query parameter
//	cookie:NAME   a cookie; NAME is a token
//	wrap:cookie:NAME, wrap:header:NAME
//	              a session id that the app creates, to whose value Shardway adds the key (package
//	              wrapkey)
//	jwt:CLAIM     a claim of the bearer token, without verification of the token
//	jwt:/POINTER  a nested claim; the pointer is that of RFC 6901
//	jwt:…@cookie:NAME, jwt:…@query:NAME, jwt:…@subprotocol:PREFIX
//	              a claim of a token in another place
//	SOURCE+SOURCE the keys of several sources, joined; see AppendPart
//	json:/POINTER a value in a JSON body; the pointer is that of RFC 6901
//	form:FIELD    a field of a form in the body (application/x-www-form-urlencoded)
//	host          the host without its port, in lower case
//	host:N        a label of the host name, 1 to 64 from the left, in lower case
//	ip            the address of the client
//	mint          a new random key, for requests in which no earlier source has a key. It is the
//	              last source, and alone only on a route on which clients create objects
//	mint:METHOD   the same, for requests with this method only
//	none          no key: any node serves a request in which no earlier source has a key. It is the
//	              last source
//	ws-json:/PTR  a member of the first message of a WebSocket, by its JSON pointer (RFC 6901)
//	ws-first      the text of the first message of a WebSocket
//
// A list of sources may also contain ws-protocol:NAME. It is not a source: it is a subprotocol that a
// node may select when it accepts a WebSocket to read its first message.
//
// # Types
//
//   - Spec contains the sources and routes as text. Table is the parsed form: it returns the
//     sources of a request by its path.
//   - Config adds the policy for requests without a key and the trusted proxies. Its canonical text
//     is the same for all equivalent configurations, so that nodes can compare them.
//   - Service contains the routes, the shards and the sources of one service. Services is the parsed form
//     of a list of them: it returns the service of a request by its host and its path.
//   - Pattern finds the key in a path by literals and placeholders.
//   - ParsedPath is a decoded request path. It reports whether all apps agree on a segment.
//
// The validation of the configuration and the proxy use the same Table, so both accept
// the same sources and routes.
//
// The package is pure: it has no clock, lock, goroutine or I/O. A Table is immutable and safe for
// concurrent use. Matching a path and reading its segments do not allocate if the buffer of the
// caller is large enough.
package keysource
