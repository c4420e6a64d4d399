package h1

import "strconv"

// WriteRequestHeader writes the header of req with the changes of edit into the write buffer of c,
// and starts the body. It sends nothing, and allocates nothing if the buffer is large enough.
func (c *Conn) WriteRequestHeader(req *Request, edit *Edit) *Writer {
	w := &c.out
	w.reserve(len(req.raw) + len(req.target) + len(req.host) + len(edit.Host) + len(edit.Extra) + edit.replacedLen() + addedHeaderSpace)
	pass := &headerPass{Edit: edit, header: &req.Header, buf: w.buf[:w.buffered], drop: edit.Drop | HopByHop}
	pass.kind, pass.size = edit.Kind, edit.Size
	if pass.kind == 0 {
		pass.kind, pass.size = req.Body.kind, req.length
	}
	pass.host = req.host
	if len(edit.Host) > 0 {
		pass.host = edit.Host
	}
	if edit.DropExpect || !req.ExpectsContinue() {
		pass.drop |= 1 << FieldExpect
	}
	pass.acceptsTrailers = req.flags&reqTrailers != 0

	pass.putWord(req.method, ' ')
	pass.putWord(req.target, ' ')
	pass.buf = append(pass.buf, "HTTP/1.1\r\n"...)
	if !req.knownFields.Has(FieldHost) {
		pass.putField("Host: ", pass.host)
	}
	pass.putLines()
	pass.putEnd()
	return w.commitHeader(pass)
}

// WriteResponseHeader writes the header of res with the changes of edit into the write buffer of c,
// and starts the body, like WriteRequestHeader.
func (c *Conn) WriteResponseHeader(res *Response, edit *Edit) *Writer {
	w := &c.out
	w.reserve(len(res.raw) + len(edit.Date) + len(edit.Extra) + edit.replacedLen() + addedHeaderSpace)
	pass := &headerPass{Edit: edit, header: &res.Header, buf: w.buf[:w.buffered], drop: edit.Drop | HopByHop, isResponse: true}
	pass.kind, pass.size = edit.Kind, edit.Size
	if pass.kind == 0 {
		pass.keepFraming(res)
	}

	pass.buf = append(pass.buf, "HTTP/1.1 "...)
	pass.buf = strconv.AppendUint(pass.buf, uint64(res.status), 10)
	pass.buf = append(pass.buf, ' ')
	pass.buf = append(pass.buf, res.Reason()...)
	pass.buf = append(pass.buf, "\r\n"...)
	pass.putLines()
	needsDate := res.status >= 200 && !pass.dateWritten
	if needsDate && len(edit.Date) > 0 {
		pass.putField("Date: ", edit.Date)
	}
	pass.putEnd()
	return w.commitHeader(pass)
}

// keepFraming selects the framing of the original response. If the receiver does not support that
// framing, it selects the one that Edit.Kind describes.
func (p *headerPass) keepFraming(res *Response) {
	p.kind, p.size = res.kind, res.length
	switch {
	case res.kind == NoBody && res.status >= 200 && res.status != 204:
		p.keepBodyLength = true // the fields describe the body that a GET would have returned
		if p.ToHTTP10 {
			p.drop |= 1 << FieldTransferEncoding
		}
		if res.deferredFramingError != nil {
			p.drop |= 1<<FieldTransferEncoding | 1<<FieldContentLength
		}
	case res.kind == Chunked && p.ToHTTP10:
		p.kind = UntilClose
	case res.kind == UntilClose && !p.ToHTTP10:
		p.kind = Chunked
	}
}

// addedHeaderSpace is the space for the first line and the lines that this package adds.
const addedHeaderSpace = 256

// commitHeader adds the header that pass has written to the buffered bytes, and starts the body.
func (w *Writer) commitHeader(pass *headerPass) *Writer {
	w.buffered = len(pass.buf) // reserve has made enough space, so buf is still the buffer of the Writer
	w.BeginBody(pass.kind, pass.size)
	return w
}

// headerPass writes the header of a forwarded message, in one pass over the lines of the original
// header. It appends to buf, the buffer of a Writer.
type headerPass struct {
	*Edit
	header     *Header // the original header
	isResponse bool
	buf        []byte

	// What to write.
	drop            FieldSet // known fields that are not copied
	kind            Kind     // framing of the body for the receiver
	size            int64    // length of the body, if kind is Length
	host            []byte   // value of Host, for a request
	keepBodyLength  bool     // keep Content-Length and Transfer-Encoding of a response without a body
	acceptsTrailers bool     // add TE: trailers

	// Output so far.
	framingWritten bool // the line that frames the body
	dateWritten    bool
}

// putWord writes a part of the start line, followed by the byte end.
func (p *headerPass) putWord(word []byte, end byte) {
	p.buf = append(p.buf, word...)
	p.buf = append(p.buf, end)
}

// putField writes a field line. name includes the colon and the space after it.
func (p *headerPass) putField(name string, value []byte) {
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, value...)
	p.buf = append(p.buf, "\r\n"...)
}

// putLines writes the lines that are forwarded.
func (p *headerPass) putLines() {
	h := p.header
	next, unwritten := 0, uint32(h.startLineLen)
	for i := range p.Replace {
		replacement := &p.Replace[i]
		fieldLine := &h.lines[replacement.Line]
		p.putLineRange(h.lines[next:replacement.Line], unwritten, fieldLine.start)
		next, unwritten = replacement.Line+1, fieldLine.next
		if !replacement.Remove && !fieldLine.notForwarded && !p.drop.Has(fieldLine.field) {
			p.buf = append(p.buf, h.nameOf(fieldLine)...)
			p.putField(": ", replacement.Value)
		}
	}
	endOfFields := uint32(len(h.raw) - len("\r\n"))
	p.putLineRange(h.lines[next:], unwritten, endOfFields)
}

// putLineRange writes the forwarded ones of the adjacent lines, which occupy the raw header from
// unwritten to end. It copies adjacent unchanged lines together.
func (p *headerPass) putLineRange(lines []line, unwritten, end uint32) {
	h := p.header
	for i := range lines {
		fieldLine := &lines[i]
		isUnchanged := fieldLine.isPlain && !fieldLine.notForwarded && !(p.drop | specialFields).Has(fieldLine.field)
		if isUnchanged {
			continue
		}
		p.buf = append(p.buf, h.raw[unwritten:fieldLine.start]...)
		unwritten = fieldLine.next
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
	p.buf = append(p.buf, h.raw[unwritten:end]...)
}

// specialFields contains the fields that are not simply copied.
const specialFields = FieldSet(1<<FieldHost | 1<<FieldContentLength | 1<<FieldTransferEncoding | 1<<FieldTrailer | 1<<FieldDate)

// putLine writes a field line with standard spacing.
func (p *headerPass) putLine(fieldLine *line) {
	p.buf = append(p.buf, p.header.nameOf(fieldLine)...)
	p.putField(": ", p.header.valueOf(fieldLine))
}

// putSpecialLine writes a line of one of the specialFields, or the line that replaces it.
func (p *headerPass) putSpecialLine(fieldLine *line) {
	switch fieldLine.field { //nolint:exhaustive // only specialFields
	case FieldHost:
		if p.isResponse {
			p.putLine(fieldLine) // has no effect in a response
		} else {
			p.putField("Host: ", p.host)
		}
	case FieldContentLength:
		if p.keepBodyLength {
			p.putBodyLength(fieldLine)
		} else {
			p.putFraming()
		}
	case FieldTransferEncoding:
		if p.keepBodyLength {
			p.putLine(fieldLine)
		} else {
			p.putFraming()
		}
	case FieldTrailer:
		if p.keepBodyLength || p.kind == Chunked {
			p.putLine(fieldLine)
		}
	case FieldDate:
		if !p.dateWritten {
			p.putLine(fieldLine)
		}
		p.dateWritten = true
	}
}

// putBodyLength writes the Content-Length line of a response without a body. Several equal lines are
// written once.
func (p *headerPass) putBodyLength(fieldLine *line) {
	if p.framingWritten {
		return
	}
	p.framingWritten = true
	p.buf = append(p.buf, p.header.nameOf(fieldLine)...)
	p.buf = append(p.buf, ": "...)
	p.buf = strconv.AppendInt(p.buf, p.size, 10)
	p.buf = append(p.buf, "\r\n"...)
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

// AppendStatusLine appends the status line of a response. text is the reason phrase.
func AppendStatusLine(dst []byte, status int, text string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, text...)
	return append(dst, "\r\n"...)
}
