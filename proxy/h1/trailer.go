package h1

// trailer keeps one trailer line, with its CRLF. A field that no trailer may be is dropped, as a
// recipient may do (RFC 9110 section 6.5.1), and so is a field of a response whose name is no token.
// Fields beyond the bounds are dropped from a response, which is finished. They are an error of a
// request, which need not have run.
func (b *Body) trailer(text []byte) error {
	var l line
	bare := text[:len(text)-2]
	if err := parseFieldLine(bare, &l); err != nil {
		if !b.isResponse || !b.head.repairs.line(bare, &l, err) {
			return err
		}
	}
	name := text[:l.colon]
	b.lines++
	switch over := b.lines > maxTrailerNum || len(b.trailers)+len(text) > maxTrailer; {
	case over && !b.isResponse:
		return errTrailers
	case over, l.named, forbiddenTrailer(name, l.field):
		b.dropTrailer(name)
	case !b.head.connectionNames(name):
		b.trailers = append(b.trailers, text...)
	}
	return nil
}

// dropTrailer counts a trailer field that is dropped.
func (b *Body) dropTrailer(name []byte) {
	if b.dropped++; b.dropped == 1 {
		b.droppedName = string(name[:min(len(name), maxDroppedName)])
	}
}

// maxDroppedName bounds the name that DroppedTrailers returns.
const maxDroppedName = 64

// DroppedTrailers returns how many trailer fields were dropped, because no trailer may have their
// names or there were too many, and the name of the first, up to 64 bytes of it.
func (b *Body) DroppedTrailers() (n int, first string) { return b.dropped, b.droppedName }

// dropBadTrailerNames drops the Trailer lines of a chunked message that announce what is no name, or a
// field that no trailer may be.
func (h *Header) dropBadTrailerNames() {
	for i := range h.lines {
		l := &h.lines[i]
		if l.field != FieldTrailer {
			continue
		}
		for list, more := h.raw[l.vs:l.ve], true; more && !l.named; {
			var e []byte
			e, list, more = cutElement(list)
			l.named = len(e) > 0 && (!isToken(e) || forbiddenTrailer(e, classify(e)))
		}
	}
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
		if len(name) == len(s) && equalLookalike(name, s) {
			return true
		}
	}
	return false
}
