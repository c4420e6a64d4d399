package h1

import "shardway/internal/fieldname"

// addTrailer stores one trailer line, with its CRLF. It drops a field that is not permitted in
// trailers, which a recipient may do (RFC 9110 section 6.5.1). It also drops a field of a response
// whose name is not a token. Fields beyond the limits are dropped from a response, because the app
// has already run the request. In a request they are an error.
func (b *Body) addTrailer(rawLine []byte) error {
	var parsed line
	withoutCRLF := rawLine[:len(rawLine)-2]
	if err := parseFieldLine(withoutCRLF, &parsed); err != nil {
		if !b.isResponse || !b.header.repairs.repairLine(withoutCRLF, &parsed, err) {
			return err
		}
	}
	name := rawLine[:parsed.colon]
	b.trailerLines++
	exceedsLimit := b.trailerLines > maxTrailerLines || len(b.trailers)+len(rawLine) > maxTrailerBytes
	if exceedsLimit && !b.isResponse {
		return errTooManyTrailers
	}
	isForbidden := parsed.notForwarded || isForbiddenTrailer(name, parsed.field) || containsLookalike(b.forbiddenTrailers, name) || containsLookalike(b.removedTrailers, name)
	if exceedsLimit || isForbidden {
		b.dropTrailer(name)
		return nil
	}
	if !b.header.isNamedByConnection(name) {
		b.trailers = append(b.trailers, rawLine...)
	}
	return nil
}

// dropTrailer counts a trailer field that is dropped.
func (b *Body) dropTrailer(name []byte) {
	b.droppedTrailers++
	if b.droppedTrailers == 1 {
		b.firstDroppedTrailer = string(name[:min(len(name), maxDroppedName)])
	}
}

// maxDroppedName is the maximum length of the name that DroppedTrailers returns.
const maxDroppedName = 64

// DroppedTrailers returns the number of trailer fields that were dropped, because they are not
// permitted in trailers or exceed the limits. first is the name of the first one, truncated to 64
// bytes.
func (b *Body) DroppedTrailers() (n int, first string) {
	return b.droppedTrailers, b.firstDroppedTrailer
}

// dropBadTrailerNames marks the Trailer lines of a chunked message that announce an invalid name or
// a field that is not permitted in trailers, so that they are not forwarded.
func (h *Header) dropBadTrailerNames() {
	for i := range h.lines {
		fieldLine := &h.lines[i]
		if fieldLine.field == FieldTrailer && namesBadTrailer(h.valueOf(fieldLine)) {
			fieldLine.notForwarded = true
		}
	}
}

// namesBadTrailer reports whether a Trailer field contains an invalid name or a name that is not
// permitted in trailers.
func namesBadTrailer(list []byte) bool {
	for more := true; more; {
		var name []byte
		name, list, more = cutListElement(list)
		if len(name) == 0 {
			continue
		}
		if !fieldname.IsToken(name) || isForbiddenTrailer(name, classify(name)) {
			return true
		}
	}
	return false
}

// forbiddenTrailers contains further fields that are not permitted in trailers, because they frame,
// route, authenticate, control or describe a message. RFC 7230 section 4.1.2 lists them, and RFC
// 9110 section 6.5.1 explains the reason.
var forbiddenTrailers = [...]string{
	"age", "authorization", "cache-control", "content-encoding", "content-location", "content-range",
	"content-type", "expires", "if-match", "if-modified-since", "if-none-match", "if-range",
	"if-unmodified-since", "location", "max-forwards", "pragma", "range", "retry-after", "set-cookie",
	"vary", "warning", "www-authenticate",
}

// forbiddenFields contains the known fields that are not permitted in trailers.
const forbiddenFields = HopByHop | Shardway | Forwarding | Lookalikes | 1<<FieldHost | 1<<FieldContentLength | 1<<FieldContentType |
	1<<FieldTransferEncoding | 1<<FieldTrailer | 1<<FieldExpect | 1<<FieldDate | 1<<FieldVia | 1<<FieldCookie

// isForbiddenTrailer reports whether a field is not permitted in trailers. field is the known field
// of name.
func isForbiddenTrailer(name []byte, field Field) bool {
	if forbiddenFields.Has(field) {
		return true
	}
	if field != FieldOther {
		return false
	}
	return containsLookalike(forbiddenTrailers[:], name)
}

// containsLookalike reports whether names contains name, or a name that some apps treat as equal to it.
func containsLookalike(names []string, name []byte) bool {
	for _, other := range names {
		if len(name) == len(other) && equalLookalike(name, other) {
			return true
		}
	}
	return false
}
