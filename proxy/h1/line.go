package h1

import (
	"bytes"
	"encoding/binary"
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
	// notForwarded means that the line is not copied to a forwarded header: Connection names the
	// field, the line is a Trailer line that announces dropped trailers, or the name is invalid.
	notForwarded bool
}

// tokenByte contains true for the bytes of a token (RFC 9110 section 5.6.2).
var tokenByte = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// plainNameByte contains true for the bytes of ordinary field names: letters, digits and hyphens.
var plainNameByte = func() (t [256]bool) {
	for c, ok := range tokenByte {
		t[c] = ok && (c == '-' || normalizeNameByte(byte(c)) != '-')
	}
	return t
}()

func isToken(b []byte) bool {
	for _, c := range b {
		if !tokenByte[c] {
			return false
		}
	}
	return len(b) > 0
}

// parseFieldLine parses and validates the header line b, without its CRLF, and stores the result in
// l. b must not be empty. Offsets in l are relative to b.
func parseFieldLine(b []byte, l *line) *Error {
	i := 0
	for i < len(b) && plainNameByte[b[i]] {
		i++
	}
	plainLen := i
	for i < len(b) && tokenByte[b[i]] {
		i++
	}
	if i == len(b) {
		return errNoColon
	}
	if b[i] != ':' || i == 0 {
		return nameError(b, i)
	}
	l.start, l.colon = 0, uint32(i)
	start, end := i+1, len(b)
	for start < end && (b[start] == ' ' || b[start] == '\t') {
		start++
	}
	for end > start && (b[end-1] == ' ' || b[end-1] == '\t') {
		end--
	}
	if !hasNoControlBytes(b[start:end]) {
		if bytes.IndexByte(b, '\r') >= 0 {
			return errBareCR
		}
		return errControlByteInValue
	}
	l.valueStart, l.valueEnd = uint32(start), uint32(end)
	l.isPlain = end == len(b) && (start == i+1 || start == i+2 && b[i+1] == ' ')
	if l.field = FieldOther; plainLen == i {
		l.field = classifyPlain(b[:i])
	} else {
		l.field = classifyLookalike(b[:i])
	}
	l.notForwarded = false
	return nil
}

// nameError returns the error for the header line b, whose byte i cannot be part of a name.
func nameError(b []byte, i int) *Error {
	switch c := b[i]; {
	case i == 0 && (c == ' ' || c == '\t'):
		return errFoldedLine
	case i == 0 && c == ':':
		return errEmptyName
	case c == ' ' || c == '\t':
		return errSpaceInName
	case c == '\r':
		return errBareCR
	}
	return errInvalidNameByte
}

// hasNoControlBytes reports whether b contains no control byte except HTAB. It checks eight bytes
// at a time, because most bytes of a header belong to values.
func hasNoControlBytes(b []byte) bool {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		low := (x - ones*0x20) &^ x // high bit: the byte is below 0x20, or may only follow such a byte
		y := x ^ ones*0x7f
		del := (y - ones) &^ y // high bit: the byte is DEL, or may only follow a DEL
		if (low|del)&highs != 0 && !hasNoControlBytesSlow(b[:8]) {
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
