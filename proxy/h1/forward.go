package h1

import "strconv"

// WriteRequestHeader writes the header of r with the changes e into the write buffer of c, and
// starts the body. It sends nothing, and allocates nothing if the buffer is large enough.
func (c *Conn) WriteRequestHeader(r *Request, e *Edit) *Writer {
	w := &c.out
	w.reserve(len(r.raw) + len(r.target) + len(r.host) + len(e.Host) + len(e.Extra) + headSlack)
	p := &pass{Edit: e, head: &r.Header, buf: w.buf[:w.n]}
	p.kind, p.size = e.Kind, e.Size
	if p.kind == 0 {
		p.kind, p.size = r.Body.kind, r.length
	}
	p.drop = e.Drop | HopByHop
	p.text(r.method, ' ')
	p.text(r.target, ' ')
	p.buf = append(p.buf, "HTTP/1.1\r\n"...)
	p.host = r.host
	if len(e.Host) > 0 {
		p.host = e.Host
	}
	if !r.seen.Has(FieldHost) {
		p.field("Host: ", p.host)
	}
	if r.flags&reqExpect == 0 || e.DropExpect {
		p.drop |= 1 << FieldExpect
	}
	p.trailers = r.flags&reqTrailers != 0
	p.lines()
	p.end()
	return w.started(p)
}

// WriteResponseHeader writes the header of r with the changes e into the write buffer of c, and
// starts the body, like WriteRequestHeader.
func (c *Conn) WriteResponseHeader(r *Response, e *Edit) *Writer {
	w := &c.out
	w.reserve(len(r.raw) + len(e.Date) + len(e.Extra) + headSlack)
	p := &pass{Edit: e, head: &r.Header, buf: w.buf[:w.n], answer: true}
	p.kind, p.size = e.Kind, e.Size
	p.drop = e.Drop | HopByHop
	if p.kind == 0 {
		p.asCame(r)
	}
	p.buf = append(p.buf, "HTTP/1.1 "...)
	p.buf = strconv.AppendUint(p.buf, uint64(r.status), 10)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, r.Reason()...)
	p.buf = append(p.buf, "\r\n"...)
	p.lines()
	if r.status >= 200 && len(e.Date) > 0 && !p.dated {
		p.field("Date: ", e.Date)
	}
	p.end()
	return w.started(p)
}

// asCame selects the framing of the original response, as far as its receiver supports that.
func (p *pass) asCame(r *Response) {
	p.kind, p.size = r.kind, r.length
	switch {
	case r.kind == NoBody && r.status >= 200 && r.status != 204:
		p.declare = true // declare the length that the body would have
		if p.Old {
			p.drop |= 1 << FieldTransferEncoding
		}
		if r.deferredFramingError != nil {
			p.drop |= 1<<FieldTransferEncoding | 1<<FieldContentLength
		}
	case r.kind == Chunked && p.Old:
		p.kind = UntilClose
	case r.kind == UntilClose && !p.Old:
		p.kind = Chunked
	}
}

// headSlack is the space for the first line and the lines that this package adds.
const headSlack = 256

func (w *Writer) started(p *pass) *Writer {
	w.n = len(p.buf) // reserve has made enough space, so buf is still the buffer of the Writer
	w.Begin(p.kind, p.size)
	return w
}

// pass is the state of writing one header from the lines of another.
type pass struct {
	*Edit
	head     *Header
	buf      []byte
	drop     Set
	kind     Kind
	size     int64
	host     []byte
	answer   bool
	declare  bool // keep Content-Length and Transfer-Encoding of a response without a body
	trailers bool // add TE: trailers
	framed   bool
	dated    bool
}

func (p *pass) text(b []byte, end byte) {
	p.buf = append(p.buf, b...)
	p.buf = append(p.buf, end)
}

func (p *pass) field(name string, value []byte) {
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, value...)
	p.buf = append(p.buf, "\r\n"...)
}

// lines writes the lines that are forwarded. It copies adjacent unchanged lines together.
func (p *pass) lines() {
	h := p.head
	run := uint32(h.first)
	for i := range h.lines {
		l := &h.lines[i]
		if l.plain && !l.named && !(p.drop | special).Has(l.field) {
			continue
		}
		p.buf = append(p.buf, h.raw[run:l.start]...)
		run = l.next
		switch {
		case l.named:
		case p.Upgrade && l.field == FieldUpgrade:
			p.line(l)
		case p.drop.Has(l.field):
		case special.Has(l.field):
			p.special(l)
		default:
			p.line(l)
		}
	}
	p.buf = append(p.buf, h.raw[run:len(h.raw)-2]...)
}

// special contains the fields that are not simply copied.
const special = Set(1<<FieldHost | 1<<FieldContentLength | 1<<FieldTransferEncoding | 1<<FieldTrailer | 1<<FieldDate)

func (p *pass) line(l *line) {
	p.buf = append(p.buf, p.head.raw[l.start:l.colon]...)
	p.field(": ", p.head.raw[l.vs:l.ve])
}

func (p *pass) special(l *line) {
	switch f := l.field; {
	case f == FieldHost && !p.answer:
		p.field("Host: ", p.host)
	case f == FieldContentLength && p.declare:
		if !p.framed { // several equal lines are written once
			p.buf = append(p.buf, p.head.raw[l.start:l.colon]...)
			p.buf = append(p.buf, ": "...)
			p.buf = strconv.AppendInt(p.buf, p.size, 10)
			p.buf = append(p.buf, "\r\n"...)
		}
		p.framed = true
	case f == FieldHost, p.declare && f != FieldDate:
		p.line(l)
	case f == FieldContentLength, f == FieldTransferEncoding:
		p.frame()
	case f == FieldTrailer:
		if p.kind == Chunked {
			p.line(l)
		}
	case f == FieldDate:
		if !p.dated {
			p.line(l)
		}
		p.dated = true
	}
}

// frame writes the line that frames the body. A second call has no effect.
func (p *pass) frame() {
	if p.framed {
		return
	}
	p.framed = true
	switch p.kind {
	case Length:
		p.buf = append(p.buf, "Content-Length: "...)
		p.buf = strconv.AppendInt(p.buf, p.size, 10)
		p.buf = append(p.buf, "\r\n"...)
	case Chunked:
		p.buf = append(p.buf, "Transfer-Encoding: chunked\r\n"...)
	case NoBody, UntilClose:
	}
}

// end writes the lines for this hop, the lines of the caller, and the empty line.
func (p *pass) end() {
	p.frame()
	p.buf = append(p.buf, p.Extra...)
	if p.trailers {
		p.buf = append(p.buf, "TE: trailers\r\n"...)
	}
	closes := p.Close || p.kind == UntilClose
	if closes || p.KeepAlive || p.Upgrade || p.trailers {
		p.buf = append(p.buf, "Connection: "...)
		at := len(p.buf)
		p.option(at, closes, "close")
		p.option(at, p.KeepAlive && !closes, "keep-alive")
		p.option(at, p.Upgrade, "Upgrade")
		p.option(at, p.trailers, "TE")
		p.buf = append(p.buf, "\r\n"...)
	}
	p.buf = append(p.buf, "\r\n"...)
}

func (p *pass) option(at int, on bool, name string) {
	if !on {
		return
	}
	if len(p.buf) > at {
		p.buf = append(p.buf, ", "...)
	}
	p.buf = append(p.buf, name...)
}
