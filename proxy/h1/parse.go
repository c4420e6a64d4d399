package h1

// NewError returns an error for a violation found by the caller. status is 4xx for a request and 502 for a
// response.
func NewError(status int, reason string) *Error { return &Error{status, reason} }

// ParseHeader parses and validates the header section of a final response from memory, as
// ReadResponse does from a connection. header must end with the empty line. method is the method of
// the request. The caller reads the body.
func (r *Response) ParseHeader(header, method []byte, maxLines int) error {
	r.begin()
	headerLen, err := r.parseLines(header, maxLines, r.parseStatusLine)
	switch {
	case err != nil:
		return gatewayError(err)
	case headerLen != len(header):
		return errStatusLine
	}
	r.raw = append(r.raw, header...)
	if err := r.validate(string(method) == "HEAD"); err != nil {
		return gatewayError(err)
	}
	r.Body.start(nil, &r.Header, r.kind, r.length)
	return nil
}
