package h1

import (
	"errors"
	"io"
)

// Refusals of answers.
var (
	errStatusLine        = &Error{502, "a bad status line"}
	errResponseVersion   = &Error{502, "an answer in a version other than HTTP/1.0 and HTTP/1.1"}
	errUnexpectedUpgrade = &Error{502, "101 without Upgrade"}
)

// Response is one judged answer head, interim ones included. Use it again for
// the next one; the zero value is ready.
type Response struct {
	Head
	// Body reads what follows the head.
	Body Body

	status int
	kind   Kind
	// strayBytes means that bytes which belong to no response may follow: the head, or that of an
	// interim response before it, announced a body where none can be.
	strayBytes bool
}

// begin prepares for the next head.
func (r *Response) begin() {
	strayBytes := r.strayBytes && r.Interim()
	r.reset()
	r.lenient, r.strayBytes = true, strayBytes
}

// ReadResponse reads the next answer to a request of that method into r and
// judges it; r.Body then reads its body. Interim answers (1xx) come one at a
// time: call again while r.Interim. io.EOF means that the connection ended
// before the first byte, io.ErrUnexpectedEOF that it did in the middle of the
// head; an *Error has the status 502.
func (c *Conn) ReadResponse(r *Response, method []byte) error {
	r.begin()
	in := &c.in
	if in.buffered() == 0 {
		if err := in.arm(c.timeouts.First); err != nil {
			return err
		}
		if err := in.fill(); err != nil {
			return err
		}
	}
	n, err := c.readHead(&r.Head, r.parseStatusLine, false)
	if err != nil {
		return gatewayError(err)
	}
	r.raw = append(r.raw, in.unread()[:n]...)
	in.discard(n)
	if err := r.validate(string(method) == "HEAD"); err != nil {
		return gatewayError(err)
	}
	r.start(in)
	return nil
}

// start begins the body of an answer that has been judged.
func (r *Response) start(in *connReader) {
	r.Body.start(in, &r.Head, r.kind, r.length)
	r.Body.reply = true
}

// gatewayError turns a refusal into one of an answer.
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

// parseStatusLine judges the status line.
func (r *Response) parseStatusLine(b []byte) *Error {
	const code = len("HTTP/1.1 ")
	if len(b) < code+3 || b[code-1] != ' ' || len(b) > code+3 && b[code+3] != ' ' {
		return errStatusLine
	}
	minor, err := parseVersion(b[:code-1])
	if err != nil {
		return errResponseVersion
	}
	r.minor, r.status = minor, 0
	for _, c := range b[code : code+3] {
		if c < '0' || c > '9' {
			return errStatusLine
		}
		r.status = r.status*10 + int(c-'0')
	}
	if r.status < 100 {
		return errStatusLine
	}
	if reason := b[code+3:]; !cleanValue(reason) {
		if !blankControls(reason) {
			return errStatusLine
		}
		r.repairs |= repairedByte
	}
	return nil
}

// validate judges the whole head, now in r.raw, and finds how the body ends.
func (r *Response) validate(toHead bool) *Error {
	if err := r.checkFraming(); err != nil {
		return err
	}
	chunked := r.seen.Has(FieldTransferEncoding)
	switch {
	case r.status < 200 || r.status == 204:
		r.dropFraming(chunked || r.length > 0)
		if r.status == 101 && (r.minor == 0 || r.opts&optUpgrade == 0 || !r.seen.Has(FieldUpgrade)) {
			return errUnexpectedUpgrade
		}
		r.kind = NoBody
	case toHead || r.status == 304:
		r.dropFraming(false)
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

// dropFraming drops the framing fields of a response that has no body, if they are bad or announce one.
func (r *Response) dropFraming(announced bool) {
	if announced || r.deferredFramingError != nil {
		r.repairs |= repairedBodyless
		r.strayBytes = true
	}
}

// Status returns the status code, 100 to 999.
func (r *Response) Status() int { return r.status }

// Reason returns the reason phrase, perhaps empty.
func (r *Response) Reason() []byte {
	const at = len("HTTP/1.1 200 ")
	if end := r.first - 2; end > at {
		return r.raw[at:end:end]
	}
	return nil
}

// Interim reports an answer after which the real one follows: 1xx but 101.
func (r *Response) Interim() bool { return r.status < 200 && r.status != 101 }

// Switches reports 101: what follows on the connection is another protocol.
func (r *Response) Switches() bool { return r.status == 101 }

// KeepAlive reports whether the connection may carry another exchange once the
// body has been read: the sender keeps it, the body does not end with it, and no
// bytes can follow that belong to no response.
func (r *Response) KeepAlive() bool {
	return r.persistent() && r.kind != UntilClose && r.status != 101 && !r.strayBytes
}
