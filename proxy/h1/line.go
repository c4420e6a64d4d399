package h1

import (
	"bytes"
	"encoding/binary"

	"shardway/internal/fieldname"
)

// Errors that requests and responses share.
var (
	errBareLF             = &Error{400, "a line that does not end in CRLF"}
	errBareCR             = &Error{400, "a CR that does not end a line"}
	errFoldedLine         = &Error{400, "a folded header line"}
	errNoColon            = &Error{400, "a header line without a colon"}
	errEmptyName          = &Error{400, "an empty header name"}
	errSpaceInName        = &Error{400, "white space in a header name"}
	errInvalidNameByte    = &Error{400, "a bad byte in a header name"}
	errControlByteInValue = &Error{400, "a control byte in a header value"}
	errTooManyLines       = &Error{431, "too many header lines"}
	errHeaderTooLong      = &Error{431, "the head is too long"}
	errSecondEmptyLine    = &Error{400, "more than one empty line before a message"}
)

// line is one header line, as offsets into the header.
type line struct {
	start, colon         uint32
	valueStart, valueEnd uint32 // offsets of the value, without surrounding white space
	next                 uint32 // start of the next line
	field                Field
	isPlain              bool // formatted as "name:value" or "name: value"
	// notForwarded is set if the line is not copied to a forwarded header: Connection names the
	// field, the line is a Trailer line that announces dropped trailers, or the name is invalid.
	notForwarded bool
}

// plainNameByte contains true for the bytes of ordinary field names: letters, digits and hyphens.
var plainNameByte = func() (t [256]bool) {
	for i := range t {
		c := byte(i)
		t[i] = c == '-' || fieldname.NormalizeByte(c) != '-'
	}
	return t
}()

// parseFieldLine parses and validates one header line, without its CRLF, and stores the result in
// parsed. text must not be empty. The offsets in parsed are relative to text.
func parseFieldLine(text []byte, parsed *line) *Error {
	// The name. Most names have only plain bytes.
	nameEnd := 0
	for nameEnd < len(text) && plainNameByte[text[nameEnd]] {
		nameEnd++
	}
	plainLen := nameEnd
	for nameEnd < len(text) && fieldname.IsTokenByte(text[nameEnd]) {
		nameEnd++
	}
	if nameEnd == len(text) {
		return errNoColon
	}
	if text[nameEnd] != ':' || nameEnd == 0 {
		return nameError(text, nameEnd)
	}

	// The value, without surrounding white space.
	valueStart, valueEnd := nameEnd+1, len(text)
	for valueStart < valueEnd && (text[valueStart] == ' ' || text[valueStart] == '\t') {
		valueStart++
	}
	for valueEnd > valueStart && (text[valueEnd-1] == ' ' || text[valueEnd-1] == '\t') {
		valueEnd--
	}
	if !hasNoControlBytes(text[valueStart:valueEnd]) {
		if bytes.IndexByte(text, '\r') >= 0 {
			return errBareCR
		}
		return errControlByteInValue
	}

	parsed.start, parsed.colon = 0, uint32(nameEnd)
	parsed.valueStart, parsed.valueEnd = uint32(valueStart), uint32(valueEnd)
	followsColon := valueStart == nameEnd+1
	followsOneSpace := valueStart == nameEnd+2 && text[nameEnd+1] == ' '
	parsed.isPlain = valueEnd == len(text) && (followsColon || followsOneSpace)
	if plainLen == nameEnd {
		parsed.field = classifyPlain(text[:nameEnd])
	} else {
		parsed.field = classifyLookalike(text[:nameEnd])
	}
	parsed.notForwarded = false
	return nil
}

// nameError returns the error for a header line whose byte at invalidAt cannot be part of a name.
func nameError(text []byte, invalidAt int) *Error {
	invalid := text[invalidAt]
	isSpace := invalid == ' ' || invalid == '\t'
	switch {
	case isSpace && invalidAt == 0:
		return errFoldedLine
	case isSpace:
		return errSpaceInName
	case invalid == ':' && invalidAt == 0:
		return errEmptyName
	case invalid == '\r':
		return errBareCR
	}
	return errInvalidNameByte
}

// hasNoControlBytes reports whether b contains no control byte except HTAB. It checks eight bytes
// at a time, because most bytes of a header belong to values. Since that check can report false
// positives, it is confirmed byte by byte.
func hasNoControlBytes(b []byte) bool {
	const (
		ones  = 0x0101010101010101 // the lowest bit of each byte
		highs = 0x8080808080808080 // the highest bit of each byte
	)
	for len(b) >= 8 {
		word := binary.LittleEndian.Uint64(b)
		below := (word - ones*0x20) &^ word // highest bit set: the byte is below 0x20, or possibly follows such a byte
		xorDEL := word ^ ones*0x7f
		del := (xorDEL - ones) &^ xorDEL // highest bit set: the byte is DEL, or possibly follows a DEL
		if (below|del)&highs != 0 && !hasNoControlBytesSlow(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return hasNoControlBytesSlow(b)
}

// hasNoControlBytesSlow is hasNoControlBytes, but checks one byte at a time.
func hasNoControlBytesSlow(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// trimOWS removes optional white space (RFC 9110 section 5.6.3) at both ends.
func trimOWS(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// cutListElement splits a comma-separated list after its first element. more reports whether rest
// contains another element.
func cutListElement(list []byte) (element, rest []byte, more bool) {
	element, rest, more = bytes.Cut(list, []byte{','})
	return trimOWS(element), rest, more
}
