package h1

import (
	"bufio"
	"bytes"
	"fmt"

	"github.com/valyala/fasthttp"
)

// parser feeds a head to fasthttp's parsers, which read from a bufio.Reader
// and change what they read: they get a copy.
type parser struct {
	src bytes.Reader
	buf *bufio.Reader
}

// reader returns a Reader over head, which it holds whole.
func (p *parser) reader(head []byte) *bufio.Reader {
	p.src.Reset(head)
	if p.buf == nil || p.buf.Size() < len(head) {
		p.buf = bufio.NewReaderSize(&p.src, max(4<<10, len(head)))
		return p.buf
	}
	p.buf.Reset(&p.src)
	return p.buf
}

// Parse parses the head into h, for those who want fasthttp's look-ups: args
// of the query, cookies. The target is as it came, absolute-form included.
// Judged heads parse, but for an HTTP/1.1 Trailer line that names what may not
// be one on a message without chunks.
func (r *Request) Parse(h *fasthttp.RequestHeader) error {
	if err := h.Read(r.parser.reader(r.raw)); err != nil {
		return fmt.Errorf("h1: %w", err)
	}
	return nil
}

// Parse parses the head into h, as that of Request does.
func (r *Response) Parse(h *fasthttp.ResponseHeader) error {
	if err := h.Read(r.parser.reader(r.raw)); err != nil {
		return fmt.Errorf("h1: %w", err)
	}
	return nil
}
