package h1

import "strconv"

// WriteRequestHeader writes the header of r with the changes of edit into the write buffer of c,
// and starts the body. It sends nothing, and allocates nothing if the buffer is large enough.
func (c *Conn) WriteRequestHeader(r *Request, edit *Edit) *Writer {
	w := &c.out
	w.reserve(len(r.raw) + len(r.target) + len(r.host) + len(edit.Host) + len(edit.Extra) + addedHeaderSpace)
	p := &headerPass{Edit: edit, header: &r.Header, buf: w.buf[:w.buffered]}
	p.kind, p.size = edit.Kind, edit.Size
	if p.kind == 0 {
		p.kind, p.size = r.Body.kind, r.length
	}
	p.drop = edit.Drop | HopByHop
	p.putWord(r.method, ' ')
	p.putWord(r.target, ' ')
	p.buf = append(p.buf, "HTTP/1.1\r\n"...)
	p.host = r.host
	if len(edit.Host) > 0 {
		p.host = edit.Host
	}
	if !r.knownFields.Has(FieldHost) {
		p.putField("Host: ", p.host)
	}
	if r.flags&reqExpect == 0 || edit.DropExpect {
		p.drop |= 1 << FieldExpect
	}
	p.acceptsTrailers = r.flags&reqTrailers != 0
	p.putLines()
	p.putEnd()
	return w.commitHeader(p)
}

// WriteResponseHeader writes the header of r with the changes of edit into the write buffer of c,
// and starts the body, like WriteRequestHeader.
func (c *Conn) WriteResponseHeader(r *Response, edit *Edit) *Writer {
	w := &c.out
	w.reserve(len(r.raw) + len(edit.Date) + len(edit.Extra) + addedHeaderSpace)
	p := &headerPass{Edit: edit, header: &r.Header, buf: w.buf[:w.buffered], isResponse: true}
	p.kind, p.size = edit.Kind, edit.Size
	p.drop = edit.Drop | HopByHop
	if p.kind == 0 {
		p.keepFraming(r)
	}
	p.buf = append(p.buf, "HTTP/1.1 "...)
	p.buf = strconv.AppendUint(p.buf, uint64(r.status), 10)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, r.Reason()...)
	p.buf = append(p.buf, "\r\n"...)
	p.putLines()
	if r.status >= 200 && len(edit.Date) > 0 && !p.dateWritten {
		p.putField("Date: ", edit.Date)
	}
	p.putEnd()
	return w.commitHeader(p)
}

// keepFraming selects the framing of the original response. If the receiver does not support that
// framing, it selects the one that Edit.Kind describes.
func (p *headerPass) keepFraming(r *Response) {
	p.kind, p.size = r.kind, r.length
	switch {
	case r.kind == NoBody && r.status >= 200 && r.status != 204:
		p.keepBodyLength = true // the fields describe the body that a GET would have returned
		if p.ToHTTP10 {
			p.drop |= 1 << FieldTransferEncoding
		}
		if r.deferredFramingError != nil {
			p.drop |= 1<<FieldTransferEncoding | 1<<FieldContentLength
		}
	case r.kind == Chunked && p.ToHTTP10:
		p.kind = UntilClose
	case r.kind == UntilClose && !p.ToHTTP10:
		p.kind = Chunked
	}
}

// addedHeaderSpace is the space for the first line and the lines that this package adds.
const addedHeaderSpace = 256

// commitHeader takes over the header that p has written, and starts the body.
func (w *Writer) commitHeader(p *headerPass) *Writer {
	w.buffered = len(p.buf) // reserve has made enough space, so buf is still the buffer of the Writer
	w.BeginBody(p.kind, p.size)
	return w
}

// headerPass writes the header of a forwarded message, in one pass over the lines of the original
// header. It appends to buf, the buffer of a Writer.
type headerPass struct {
	*Edit
	header          *Header
	buf             []byte
	drop            FieldSet
	kind            Kind
	size            int64
	host            []byte
	isResponse      bool
	keepBodyLength  bool // keep Content-Length and Transfer-Encoding of a response without a body
	acceptsTrailers bool // add TE: trailers
	framingWritten  bool
	dateWritten     bool
}

func (p *headerPass) putWord(word []byte, end byte) {
	p.buf = append(p.buf, word...)
	p.buf = append(p.buf, end)
}

func (p *headerPass) putField(name string, value []byte) {
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, value...)
	p.buf = append(p.buf, "\r\n"...)
}

// putLines writes the lines that are forwarded. It copies adjacent unchanged lines together.
func (p *headerPass) putLines() {
	h := p.header
	runStart := uint32(h.startLineLen)
	for i := range h.lines {
		fieldLine := &h.lines[i]
		if fieldLine.isPlain && !fieldLine.notForwarded && !(p.drop | specialFields).Has(fieldLine.field) {
			continue
		}
		p.buf = append(p.buf, h.raw[runStart:fieldLine.start]...)
		runStart = fieldLine.next
		switch {
		case fieldLine.notForwarded:
		case p.Upgrade && fieldLine.field == FieldUpgrade:
			p.putLine(fieldLine)
		case p.drop.Has(fieldLine.field):
		case specialFields.Has(fieldLine.field):
			p.putSpecialLine(fieldLine)
		default:
			p.putLine(fieldLine)
		}
	}
	p.buf = append(p.buf, h.raw[runStart:len(h.raw)-2]...)
}

// specialFields contains the fields that are not simply copied.
const specialFields = FieldSet(1<<FieldHost | 1<<FieldContentLength | 1<<FieldTransferEncoding | 1<<FieldTrailer | 1<<FieldDate)

// putLine writes a field line with standard spacing.
func (p *headerPass) putLine(fieldLine *line) {
	p.buf = append(p.buf, p.header.raw[fieldLine.start:fieldLine.colon]...)
	p.putField(": ", p.header.raw[fieldLine.valueStart:fieldLine.valueEnd])
}

// putSpecialLine writes a line of one of the specialFields, or the line that replaces it.
func (p *headerPass) putSpecialLine(fieldLine *line) {
	switch field := fieldLine.field; {
	case field == FieldHost && !p.isResponse:
		p.putField("Host: ", p.host)
	case field == FieldContentLength && p.keepBodyLength:
		if !p.framingWritten { // several equal lines are written once
			p.buf = append(p.buf, p.header.raw[fieldLine.start:fieldLine.colon]...)
			p.buf = append(p.buf, ": "...)
			p.buf = strconv.AppendInt(p.buf, p.size, 10)
			p.buf = append(p.buf, "\r\n"...)
		}
		p.framingWritten = true
	case field == FieldHost, p.keepBodyLength && field != FieldDate:
		p.putLine(fieldLine)
	case field == FieldContentLength, field == FieldTransferEncoding:
		p.putFraming()
	case field == FieldTrailer:
		if p.kind == Chunked {
			p.putLine(fieldLine)
		}
	case field == FieldDate:
		if !p.dateWritten {
			p.putLine(fieldLine)
		}
		p.dateWritten = true
	}
}

// putFraming writes the line that frames the body. A second call has no effect.
func (p *headerPass) putFraming() {
	if p.framingWritten {
		return
	}
	p.framingWritten = true
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

// putEnd writes the lines for this hop, the lines of the caller, and the empty line.
func (p *headerPass) putEnd() {
	p.putFraming()
	p.buf = append(p.buf, p.Extra...)
	if p.acceptsTrailers {
		p.buf = append(p.buf, "TE: trailers\r\n"...)
	}
	closes := p.Close || p.kind == UntilClose
	if closes || p.KeepAlive || p.Upgrade || p.acceptsTrailers {
		p.buf = append(p.buf, "Connection: "...)
		listStart := len(p.buf)
		p.putOption(listStart, closes, "close")
		p.putOption(listStart, p.KeepAlive && !closes, "keep-alive")
		p.putOption(listStart, p.Upgrade, "Upgrade")
		p.putOption(listStart, p.acceptsTrailers, "TE")
		p.buf = append(p.buf, "\r\n"...)
	}
	p.buf = append(p.buf, "\r\n"...)
}

// putOption adds name to the value of Connection, which begins at listStart, if on is true.
func (p *headerPass) putOption(listStart int, on bool, name string) {
	if !on {
		return
	}
	if len(p.buf) > listStart {
		p.buf = append(p.buf, ", "...)
	}
	p.buf = append(p.buf, name...)
}
