package h1

// trailer keeps one trailer line. Those that Connection names end here.
func (b *Body) trailer(text []byte) error {
	var l line
	if err := judgeLine(text[:len(text)-2], &l); err != nil {
		return err
	}
	if b.lines++; b.lines > maxTrailerNum {
		return errTrailers
	}
	name := text[:l.colon]
	if forbiddenTrailer(name, l.field) {
		return errTrailer
	}
	if !b.head.connectionNames(name) {
		b.trailers = append(b.trailers, text...)
	}
	return nil
}

// judgeAnnounced judges what Trailer announces of a chunked body: an early word
// on trailers that would be refused.
func (h *Head) judgeAnnounced() *Error {
	for i := range h.lines {
		l := &h.lines[i]
		if l.field != FieldTrailer {
			continue
		}
		for list, more := h.raw[l.vs:l.ve], true; more; {
			var e []byte
			e, list, more = cutElement(list)
			if len(e) > 0 && (!isToken(e) || forbiddenTrailer(e, classify(e))) {
				return errTrailer
			}
		}
	}
	return nil
}

// forbiddenTrailers are the fields that frame, route, authenticate, control or
// describe a message (RFC 7230 section 4.1.2 lists them, RFC 9110 section 6.5.1
// says why), beside the known ones.
var forbiddenTrailers = [...]string{
	"age", "authorization", "cache-control", "content-encoding", "content-location", "content-range",
	"content-type", "expires", "if-match", "if-modified-since", "if-none-match", "if-range",
	"if-unmodified-since", "location", "max-forwards", "pragma", "range", "retry-after", "set-cookie",
	"vary", "warning", "www-authenticate",
}

// forbiddenFields are the known fields that no trailer may be.
const forbiddenFields = HopByHop | Shardway | Forwarding | Lookalikes | 1<<FieldHost | 1<<FieldContentLength | 1<<FieldContentType |
	1<<FieldTransferEncoding | 1<<FieldTrailer | 1<<FieldExpect | 1<<FieldDate | 1<<FieldVia | 1<<FieldCookie

func forbiddenTrailer(name []byte, f Field) bool {
	if forbiddenFields.Has(f) {
		return true
	}
	if f != FieldOther {
		return false
	}
	for _, s := range forbiddenTrailers {
		if len(name) == len(s) && alike(name, s) {
			return true
		}
	}
	return false
}
