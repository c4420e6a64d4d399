package h1

// NewError makes a refusal of a caller's own: one of 4xx of a request, of 502 of an
// answer.
func NewError(status int, reason string) *Error { return &Error{status, reason} }

// ParseHeader takes the head of a final answer to a request of that method from memory, with
// its empty line, and judges it as ReadResponse does one that comes over a connection.
// Its body is the caller's affair.
func (r *Response) ParseHeader(head, method []byte, maxLines int) error {
	r.begin()
	n, err := r.index(head, maxLines, r.parseStatusLine)
	switch {
	case err != nil:
		return gatewayError(err)
	case n != len(head):
		return errStatusLine
	}
	r.raw = append(r.raw, head...)
	if err := r.validate(string(method) == "HEAD"); err != nil {
		return gatewayError(err)
	}
	r.Body.start(nil, &r.Head, r.kind, r.length)
	return nil
}
