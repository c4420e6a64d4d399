package h1

import (
	"bytes"
	"encoding/binary"
)

// Errors that requests and responses share.
var (
	errBareLF      = &Error{400, "a line that does not end in CRLF"}
	errBareCR      = &Error{400, "a CR that does not end a line"}
	errFold        = &Error{400, "a folded header line"}
	errNoColon     = &Error{400, "a header line without a colon"}
	errEmptyName   = &Error{400, "an empty header name"}
	errNameSpace   = &Error{400, "white space in a header name"}
	errNameByte    = &Error{400, "a bad byte in a header name"}
	errValueByte   = &Error{400, "a control byte in a header value"}
	errManyLines   = &Error{431, "too many header lines"}
	errLongHeader  = &Error{431, "the head is too long"}
	errLeadingLine = &Error{400, "more than one empty line before a message"}
)

// line is one header line, as offsets into the header.
type line struct {
	start, colon uint32
	vs, ve       uint32 // offsets of the value, without surrounding white space
	next         uint32 // start of the next line
	field        Field
	plain        bool // formatted as "name:value" or "name: value"
	named        bool // the line is not forwarded: Connection names the field, the line is a Trailer line that announces dropped trailers, or the name is invalid
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

// usualByte contains true for the bytes of ordinary field names: letters, digits and hyphens.
var usualByte = func() (t [256]bool) {
	for c, ok := range tokenByte {
		t[c] = ok && (c == '-' || foldNameByte(byte(c)) != '-')
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

// parseFieldLine judges the header line b, which has lost its CRLF and is not
// empty. Offsets in l are relative to b.
func parseFieldLine(b []byte, l *line) *Error {
	i := 0
	for i < len(b) && usualByte[b[i]] {
		i++
	}
	usual := i
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
	s, e := i+1, len(b)
	for s < e && (b[s] == ' ' || b[s] == '\t') {
		s++
	}
	for e > s && (b[e-1] == ' ' || b[e-1] == '\t') {
		e--
	}
	if !cleanValue(b[s:e]) {
		if bytes.IndexByte(b, '\r') >= 0 {
			return errBareCR
		}
		return errValueByte
	}
	l.vs, l.ve = uint32(s), uint32(e)
	l.plain = e == len(b) && (s == i+1 || s == i+2 && b[i+1] == ' ')
	if l.field = FieldOther; usual == i {
		l.field = classifyUsual(b[:i])
	} else {
		l.field = lookalike(b[:i])
	}
	l.named = false
	return nil
}

func nameError(b []byte, i int) *Error {
	switch c := b[i]; {
	case i == 0 && (c == ' ' || c == '\t'):
		return errFold
	case i == 0 && c == ':':
		return errEmptyName
	case c == ' ' || c == '\t':
		return errNameSpace
	case c == '\r':
		return errBareCR
	}
	return errNameByte
}

// cleanValue reports whether b holds no control byte but HTAB: eight bytes at
// a time, as values are the bulk of a head.
func cleanValue(b []byte) bool {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		low := (x - ones*0x20) &^ x // high bit: below 0x20 (or a false alarm above one)
		y := x ^ ones*0x7f
		del := (y - ones) &^ y // high bit: DEL (or a false alarm above one)
		if (low|del)&highs != 0 && !cleanBytes(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return cleanBytes(b)
}

func cleanBytes(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// trimOWS cuts spaces and tabs off both ends.
func trimOWS(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// cutElement takes the first element off a comma-separated list.
func cutElement(list []byte) (element, rest []byte, more bool) {
	element, rest, more = bytes.Cut(list, []byte{','})
	return trimOWS(element), rest, more
}
