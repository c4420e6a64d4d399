package h1

import (
	"bytes"
	"strings"
	"time"

	"shardway/internal/fieldname"
)

// Errors for invalid requests.
var (
	errRequestLine        = &Error{400, "a bad request line"}
	errMethod             = &Error{400, "a bad method"}
	errTarget             = &Error{400, "a bad request target"}
	errConnectMethod      = &Error{405, "CONNECT is not served here"}
	errVersion            = &Error{505, "a version other than HTTP/1.0 and HTTP/1.1"}
	errTargetTooLong      = &Error{414, "the request target is too long"}
	errNoHost             = &Error{400, "no Host"}
	errRepeatedHost       = &Error{400, "more than one Host"}
	errInvalidHost        = &Error{400, "a bad Host"}
	errTargetHostMismatch = &Error{400, "a request target for another host than Host"}
	errFramingLookalike   = &Error{400, "Content-Length or Transfer-Encoding with another byte for its -"}
	errExpectation        = &Error{417, "an Expect other than 100-continue"}
)

// Request is one validated request. It can be reused for the next request. The zero value is ready
// to use.
type Request struct {
	Header
	// Body reads the body that follows the header.
	Body Body

	method    []byte
	target    []byte // in origin-form or "*"
	host      []byte // from the target in absolute-form, or otherwise from Host; nil means none
	rawTarget []byte // the target in its original form
	flags     requestFlag
	targetBuf []byte // buffer for a target that differs from its original form
}

// requestFlag is a set of properties of a request that several header fields together determine.
type requestFlag uint8

const (
	reqExpect   requestFlag = 1 << iota // Expect: 100-continue, for a request with a body
	reqUpgrade                          // the client requests another protocol
	reqTrailers                         // TE: trailers
)

// ReadRequest reads the next request header into req and validates it. req.Body then reads the
// body. The error is io.EOF if the client has closed the connection before the first byte of a
// request, and io.ErrUnexpectedEOF if it has done so within the header. It is ErrStopped if
// StopWaiting ended the wait. For an invalid request, it is an *Error, which contains the response
// status. Bytes after the request stay buffered.
func (c *Conn) ReadRequest(req *Request) error {
	return c.ReadRequestAfter(time.Time{}, req)
}

// ReadRequestAfter is like ReadRequest, but the time limit for the first byte starts at now, so
// that a caller that has just read the clock need not read it again. Zero means the current time.
func (c *Conn) ReadRequestAfter(now time.Time, req *Request) error {
	req.reset()
	req.method = nil
	if err := c.in.awaitRequest(now, c.timeouts.FirstByte); err != nil {
		return err
	}
	n, err := c.headers.readRequest(req)
	if err != nil {
		if head := []byte("HEAD "); bytes.HasPrefix(c.in.unread(), head) {
			req.method = head[:4]
		}
		return err
	}
	req.raw = append(req.raw, c.in.unread()[:n]...)
	c.in.discard(n)
	if err := req.validate(); err != nil {
		return err
	}
	req.start(&c.in)
	return nil
}

// start starts the body of a validated request.
func (r *Request) start(in *connReader) {
	kind := NoBody
	switch {
	case r.knownFields.Has(FieldTransferEncoding):
		kind = Chunked
	case r.length >= 0:
		kind = Length
	}
	r.Body.start(in, &r.Header, kind, r.length)
}

// parseRequestLine parses the request line.
func (r *Request) parseRequestLine(text []byte) *Error {
	methodEnd := bytes.IndexByte(text, ' ')
	if methodEnd < 0 || !fieldname.IsToken(text[:methodEnd]) {
		return errMethod
	}
	rest := text[methodEnd+1:]
	targetEnd := bytes.IndexByte(rest, ' ')
	if targetEnd <= 0 {
		return errRequestLine
	}
	minor, err := parseVersion(rest[targetEnd+1:])
	if err != nil {
		return err
	}
	r.minor = minor
	for _, c := range rest[:targetEnd] {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return errTarget
		}
	}
	if string(text[:methodEnd]) == "CONNECT" {
		return errConnectMethod
	}
	return nil
}

// parseVersion parses an HTTP-version.
func parseVersion(b []byte) (uint8, *Error) {
	switch string(b) {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	if len(b) != len("HTTP/1.1") || string(b[:5]) != "HTTP/" {
		return 0, errRequestLine
	}
	major, dot, minor := b[5]-'0', b[6], b[7]-'0'
	if dot == '.' && major < 10 && minor < 10 {
		return 0, errVersion
	}
	return 0, errRequestLine
}

// validate validates the complete header, which is in r.raw.
func (r *Request) validate() *Error {
	methodEnd := bytes.IndexByte(r.raw, ' ')
	targetEnd := r.startLineLen - len(" HTTP/1.1\r\n")
	r.method, r.rawTarget = r.raw[:methodEnd:methodEnd], r.raw[methodEnd+1:targetEnd:targetEnd]
	if err := r.parseTarget(); err != nil {
		return err
	}
	if r.knownFields.Has(FieldFramingLookalike) {
		return errFramingLookalike
	}
	if err := r.checkFraming(); err != nil {
		return err
	}
	return r.parseExpectUpgradeTE()
}

// parseTarget determines host and target, and checks that they agree.
func (r *Request) parseTarget() *Error {
	r.host, r.target = r.Known(FieldHost), r.rawTarget
	hasHost := r.knownFields.Has(FieldHost)
	switch {
	case hasHost && !validAuthority(r.host):
		return errInvalidHost
	case !hasHost && r.minor == 1:
		return errNoHost
	}
	switch {
	case string(r.rawTarget) == "*":
		if string(r.method) != "OPTIONS" {
			return errTarget
		}
		return nil
	case r.rawTarget[0] != '/':
		if err := r.parseAbsoluteForm(hasHost); err != nil {
			return err
		}
	}
	return checkPathEscapes(r.Path())
}

// checkPathEscapes returns an error if a percent escape in path is incomplete.
func checkPathEscapes(path []byte) *Error {
	for i, c := range path {
		if c == '%' && !startsWithEscape(path[i:]) {
			return errTarget
		}
	}
	return nil
}

// parseAbsoluteForm parses a target in absolute-form. Its authority must equal Host, except that
// one of them may contain the default port of the scheme. An HTTP/1.0 request may have no Host.
func (r *Request) parseAbsoluteForm(hasHost bool) *Error {
	scheme, rest, ok := bytes.Cut(r.rawTarget, []byte("://"))
	if !ok || !equalFoldLower(scheme, "http") && !equalFoldLower(scheme, "https") {
		return errTarget
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, target := rest[:end:end], rest[end:]
	switch {
	case !validAuthority(authority):
		return errTarget
	case hasHost && !sameAuthority(authority, r.host, len(scheme) == len("https")):
		return errTargetHostMismatch
	}
	r.host = authority
	r.target = r.originForm(target)
	return nil
}

// originForm returns the target of a request in absolute-form, without scheme and authority, in
// origin-form. An empty path becomes "*" for OPTIONS, and otherwise "/" (RFC 9112 section 3.2).
func (r *Request) originForm(target []byte) []byte {
	switch {
	case len(target) == 0 && string(r.method) == "OPTIONS":
		r.targetBuf = append(r.targetBuf[:0], '*')
		return r.targetBuf
	case len(target) == 0 || target[0] == '?':
		r.targetBuf = append(r.targetBuf[:0], '/')
		r.targetBuf = append(r.targetBuf, target...)
		return r.targetBuf
	}
	return target
}

// parseExpectUpgradeTE parses Expect, Upgrade and TE, and sets the flags of the request. HTTP/1.0
// does not have these fields.
func (r *Request) parseExpectUpgradeTE() *Error {
	r.flags = 0
	if r.knownFields&(1<<FieldExpect|1<<FieldUpgrade|1<<FieldTE) == 0 || r.minor == 0 {
		return nil
	}
	hasBody := r.knownFields.Has(FieldTransferEncoding) || r.length > 0
	requestsUpgrade := r.connOptions&optUpgrade != 0 && !hasBody && r.knownFields.Has(FieldUpgrade)
	for i := range r.lines {
		value := r.valueOf(&r.lines[i])
		switch r.lines[i].field { //nolint:exhaustive // the other fields set no flags
		case FieldExpect:
			if !equalFoldLower(value, "100-continue") {
				return errExpectation
			}
			if hasBody {
				r.flags |= reqExpect
			}
		case FieldUpgrade:
			if len(value) == 0 || upgradeCarriesHTTP(value) {
				requestsUpgrade = false
			}
		case FieldTE:
			if hasElement(value, "trailers") {
				r.flags |= reqTrailers
			}
		}
	}
	if requestsUpgrade {
		r.flags |= reqUpgrade
	}
	return nil
}

// upgradeCarriesHTTP reports whether an Upgrade field requests a protocol that itself carries HTTP
// requests: HTTP/2 under any of its names, HTTP, or TLS (RFC 2817). Those requests would bypass
// validation: they could have any path and any field.
func upgradeCarriesHTTP(list []byte) bool {
	for more := true; more; {
		var element []byte
		element, list, more = cutListElement(list)
		for _, prefix := range [...]string{"h2", "http", "tls"} {
			if len(element) >= len(prefix) && equalFoldLower(element[:len(prefix)], prefix) {
				return true
			}
		}
	}
	return false
}

// hasElement reports whether a comma-separated list has the element lower, ignoring case.
func hasElement(list []byte, lower string) bool {
	for more := true; more; {
		var element []byte
		element, list, more = cutListElement(list)
		if equalFoldLower(element, lower) {
			return true
		}
	}
	return false
}

// Method returns the method as received.
func (r *Request) Method() []byte { return r.method }

// IsHead reports whether the method is HEAD, so that the response has no body whatever length it
// declares. It is also valid for a request that ReadRequest has rejected.
func (r *Request) IsHead() bool { return string(r.method) == "HEAD" }

// Target returns the request target in origin-form, or "*". Path and query are in their original
// form, including an empty "?".
func (r *Request) Target() []byte { return r.target }

// Path returns the target before the question mark.
func (r *Request) Path() []byte {
	p, _, _ := bytes.Cut(r.target, []byte{'?'})
	return p
}

// Query returns the target after the question mark.
func (r *Request) Query() []byte {
	_, q, _ := bytes.Cut(r.target, []byte{'?'})
	return q
}

// Host returns the host that the request is for, with the port if it names one. It is nil only for
// an HTTP/1.0 request without a host.
func (r *Request) Host() []byte { return r.host }

// KeepAlive reports whether the client keeps the connection open after the response.
func (r *Request) KeepAlive() bool { return r.persistent() }

// ExpectsContinue reports whether the client waits for 100 (Continue) before it sends the body.
func (r *Request) ExpectsContinue() bool { return r.flags&reqExpect != 0 }

// RequestsUpgrade reports whether the client requests another protocol: an HTTP/1.1 request without
// a body, whose Connection field names Upgrade, and that does not request HTTP/2 or TLS.
// Known(FieldUpgrade) returns the protocol.
func (r *Request) RequestsUpgrade() bool { return r.flags&reqUpgrade != 0 }

// RequestsWebSocket reports whether the client requests a WebSocket (RFC 6455 section 4.1).
func (r *Request) RequestsWebSocket() bool {
	return r.RequestsUpgrade() && string(r.Method()) == "GET" && r.Has(FieldUpgrade) && strings.EqualFold(string(r.Known(FieldUpgrade)), "websocket")
}
