package h1

import (
	"errors"
	"io"
)

// Errors of malformed responses. Their texts can reach the client.
var (
	errStatusLine        = &Error{502, "a bad status line"}
	errResponseVersion   = &Error{502, "an answer in a version other than HTTP/1.0 and HTTP/1.1"}
	errUnexpectedUpgrade = &Error{502, "101 without Upgrade"}
)

// Response is the header section of one response, and its body. A Response can be reused for
// the next response; the zero value is ready for use.
type Response struct {
	Header
	// Body reads the body of the response.
	Body Body

	status int
	kind   Kind // framing of the body
	// strayBytes is set if bytes that belong to no response may follow, because this response, or
	// an interim response before it, declares a body that its status forbids.
	strayBytes bool
}

// begin resets r for the next response on the connection. strayBytes survives an interim
// response, because the final response follows on the same connection.
func (r *Response) begin() {
	strayBytes := r.strayBytes && r.IsInterim()
	r.reset()
	r.lenient, r.strayBytes = true, strayBytes
}

// ReadResponse reads the header section of the next response into res and validates it. res.Body
// then reads the body. method is the method of the request: a response to HEAD has no body.
//
// Interim responses (1xx) are returned one at a time: call ReadResponse again while res.IsInterim
// reports true. io.EOF means that the connection ended before the first byte, and
// io.ErrUnexpectedEOF that it ended within the header section. A malformed response is an *Error
// with status 502.
func (c *Conn) ReadResponse(res *Response, method []byte) error {
	res.begin()
	in := &c.in
	if in.buffered() == 0 {
		if err := in.setReadTimeout(c.timeouts.FirstByte); err != nil {
			return err
		}
		if err := in.fill(); err != nil {
			return err
		}
	}
	n, err := c.headers.read(&res.Header, res.parseStatusLine, false)
	if err != nil {
		return gatewayError(err)
	}
	res.raw = append(res.raw, in.unread()[:n]...)
	in.discard(n)
	if err := res.validate(string(method) == "HEAD"); err != nil {
		return gatewayError(err)
	}
	res.start(in)
	return nil
}

// start prepares r.Body for reading, after validate has accepted the header section.
func (r *Response) start(in *connReader) {
	r.Body.start(in, &r.Header, r.kind, r.length)
	r.Body.isResponse = true
}

// gatewayError converts an error of the shared header parser into the error of a response:
// the status becomes 502, and io.EOF within a header becomes io.ErrUnexpectedEOF.
func gatewayError(err error) error {
	var e *Error
	if errors.As(err, &e) && e.status != 502 {
		return &Error{502, e.reason}
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseStatusLine parses the status line, without its CRLF. It replaces control characters in the
// reason phrase by spaces (repair.go).
func (r *Response) parseStatusLine(text []byte) *Error {
	const (
		versionEnd = len("HTTP/1.1")
		codeStart  = versionEnd + len(" ")
		codeEnd    = codeStart + len("200")
	)
	if len(text) < codeEnd || text[versionEnd] != ' ' {
		return errStatusLine
	}
	reason := text[codeEnd:] // with the space before it
	if len(reason) > 0 && reason[0] != ' ' {
		return errStatusLine
	}
	minor, err := parseVersion(text[:versionEnd])
	if err != nil {
		return errResponseVersion
	}
	r.minor, r.status = minor, parseStatusCode(text[codeStart:codeEnd])
	if r.status < 100 {
		return errStatusLine
	}
	if !hasNoControlBytes(reason) {
		if !replaceControlBytes(reason) {
			return errStatusLine
		}
		r.repairs |= replacedControlByte
	}
	return nil
}

// parseStatusCode returns the value of a status code, or 0 if it contains a byte other than a
// digit.
func parseStatusCode(digits []byte) int {
	code := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0
		}
		code = code*10 + int(c-'0')
	}
	return code
}

// validate checks the complete header section in r.raw and determines how the body is framed (RFC
// 9112 section 6.3). isHead is set for the response to a request with method HEAD.
func (r *Response) validate(isHead bool) *Error {
	if err := r.checkFraming(); err != nil {
		return err
	}
	chunked := r.knownFields.Has(FieldTransferEncoding)
	switch {
	case r.status < 200 || r.status == 204:
		r.recordUnexpectedFraming(chunked || r.length > 0)
		if r.status == 101 && !r.namesUpgradeProtocol() {
			return errUnexpectedUpgrade
		}
		r.kind = NoBody
	case isHead || r.status == 304:
		r.recordUnexpectedFraming(false)
		r.kind = NoBody
	case r.deferredFramingError != nil:
		return r.deferredFramingError
	case chunked:
		r.kind = Chunked
	case r.length >= 0:
		r.kind = Length
	default:
		r.kind = UntilClose
	}
	return nil
}

// namesUpgradeProtocol reports whether the response contains what 101 requires: HTTP/1.1, an Upgrade
// field, and a Connection field that names it.
func (r *Response) namesUpgradeProtocol() bool {
	return r.minor == 1 && r.connOptions&optUpgrade != 0 && r.knownFields.Has(FieldUpgrade)
}

// recordUnexpectedFraming records that a response that cannot have a body has invalid framing fields
// or declares a body. Stray bytes may follow it, so the connection cannot be reused.
func (r *Response) recordUnexpectedFraming(declaresBody bool) {
	if declaresBody || r.deferredFramingError != nil {
		r.repairs |= ignoredBodyFraming
		r.strayBytes = true
	}
}

// Status returns the status code, 100 to 999.
func (r *Response) Status() int { return r.status }

// Reason returns the reason phrase, or nil if the status line has none.
func (r *Response) Reason() []byte {
	const reasonOffset = len("HTTP/1.1 200 ")
	if end := r.startLineLen - 2; end > reasonOffset {
		return r.raw[reasonOffset:end:end]
	}
	return nil
}

// IsInterim reports whether the final response is still to come: the status is 1xx, but not 101.
func (r *Response) IsInterim() bool { return r.status < 200 && r.status != 101 }

// IsSwitchingProtocols reports whether the status is 101: the connection continues in another
// protocol.
func (r *Response) IsSwitchingProtocols() bool { return r.status == 101 }

// KeepAlive reports whether the connection can carry another exchange after the body has been read.
// This is the case if the sender keeps the connection open, the body does not end with the
// connection, and no stray bytes can follow.
func (r *Response) KeepAlive() bool {
	return r.persistent() && r.kind != UntilClose && r.status != 101 && !r.strayBytes
}
