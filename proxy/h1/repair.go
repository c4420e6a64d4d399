package h1

import (
	"bytes"
	"strings"
)

// A response that reaches this package has run: refusing it loses what the app did. So each rule
// asks whether readers of HTTP can take the message in two ways. If they can, the response is
// refused: the meaning is not known, and a client could be made to see a response that no app
// sent. If they cannot, the response is repaired, and the connection to the app closes after
// it where bytes could follow that belong to no response. Requests are refused in either case:
// nothing has run, and the client learns what to correct.

// repairs is the set of repairs of a response.
type repairs uint16

const (
	// repairedBodyless means that Content-Length or Transfer-Encoding was dropped where no body
	// can be, whatever they say (RFC 9112 section 6.3, rule 1).
	repairedBodyless repairs = 1 << iota
	// repairedLengths means that one Content-Length was made of equal ones (rule 5).
	repairedLengths
	// repairedSpace means that white space before a colon was removed (RFC 9112 section 5.1).
	repairedSpace
	// repairedFold means that a folded line was joined (RFC 9112 section 5.2).
	repairedFold
	// repairedByte means that a control byte became a space (RFC 9110 section 5.5).
	repairedByte
	// repairedOption means that an option of Connection was ignored that is no token.
	repairedOption
	// repairedName means that a field was dropped because its name is no token.
	repairedName
)

var repairTexts = [...]string{
	"framing fields on a response without a body", "equal Content-Length fields", "white space before a colon",
	"a folded header line", "a control byte", "a bad option in Connection", "a field with a bad name",
}

// String lists what was repaired; empty: nothing.
func (s repairs) String() string {
	var texts []string
	for i, text := range repairTexts {
		if s&(1<<i) != 0 {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// line repairs the header line b, which has lost its CRLF, in place, after parseFieldLine has refused it
// with that error. It reports whether l is good now. Framing fields are not repaired, and their
// bytes stay as they came: a head that is refused here may be read again from the same buffer.
// A field whose name is no token is marked as named, so that no message takes it along.
func (s *repairs) line(b []byte, l *line, err *Error) bool {
	if isFramingName(b[:tokenLen(b)]) {
		return false
	}
	if err == errNameByte {
		if !l.badName(b) {
			return false
		}
		*s |= repairedName
		return true
	}
	for range 2 { // a line may have both faults
		switch {
		case err == errNameSpace && moveColon(b):
			*s |= repairedSpace
		case err == errValueByte && blankControls(b):
			*s |= repairedByte
		default:
			return false
		}
		if err = parseFieldLine(b, l); err == nil {
			return true
		}
	}
	return false
}

// badName makes l of a header line whose name is no token, and reports whether the line has one
// reading: a colon ends the name, no white space or control byte is there that some readers end a
// name or a line at, and no reader can take the name for that of a framing field.
func (l *line) badName(b []byte) bool {
	colon := bytes.IndexByte(b, ':')
	if colon <= 0 || bytes.ContainsAny(b[:colon], " \t") || !cleanValue(b) || resemblesFramingName(b[:colon]) {
		return false
	}
	end := uint32(len(b))
	*l = line{colon: uint32(colon), vs: end, ve: end, field: FieldOther, named: true}
	return true
}

// resemblesFramingName reports whether name contains the name of a framing field, if only the
// letters count. A letter that is no ASCII and has an ASCII letter as its upper case counts as that.
func resemblesFramingName(name []byte) bool {
	letters := bytes.Map(func(r rune) rune {
		if r < 'A' || r > 'Z' {
			return -1
		}
		return r
	}, bytes.ToUpper(name))
	return bytes.Contains(letters, []byte("CONTENTLENGTH")) || bytes.Contains(letters, []byte("TRANSFERENCODING"))
}

// isFramingName reports whether a field of that name determines where a message ends.
func isFramingName(name []byte) bool {
	return bytes.EqualFold(name, []byte("Content-Length")) || bytes.EqualFold(name, []byte("Transfer-Encoding"))
}

// moveColon moves the colon of "Name : value" to the name, and reports whether there is one.
func moveColon(b []byte) bool {
	n := tokenLen(b)
	rest := bytes.TrimLeft(b[n:], " \t")
	if n == 0 || len(rest) == 0 || rest[0] != ':' {
		return false
	}
	rest[0], b[n] = ' ', ':'
	return true
}

// blankControls puts spaces in the place of control bytes. It reports false if one of them is NUL,
// CR or LF: readers disagree on what those end.
func blankControls(b []byte) bool {
	if bytes.ContainsAny(b, "\x00\r\n") {
		return false
	}
	for i, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[i] = ' '
		}
	}
	return true
}

// unfold joins the line text, which follows the last header line of h in b, to that line if it
// continues it: two spaces come in the place of the CRLF. Then h stands before the joined line.
// Lines of known fields are not joined, nor is a line of white space: some readers take it for the
// end of the head.
func (h *Header) unfold(b, text []byte) bool {
	if text[0] != ' ' && text[0] != '\t' || len(trimOWS(text)) == 0 || len(h.lines) == 0 {
		return false
	}
	last := &h.lines[len(h.lines)-1]
	if last.field != FieldOther {
		return false
	}
	b[h.scanned-2], b[h.scanned-1] = ' ', ' '
	h.scanned = int(last.start)
	h.lines = h.lines[:len(h.lines)-1]
	h.repairs |= repairedFold
	h.folds++
	return true
}

// parseSameLengths reads a list of equal lengths as one.
func parseSameLengths(list []byte) (int64, bool) {
	first, rest, more := cutElement(list)
	n, ok := parseLength(first)
	for ok && more {
		var e []byte
		e, rest, more = cutElement(rest)
		m, valid := parseLength(e)
		ok = valid && m == n
	}
	return n, ok
}

// Repaired lists the repairs of the head; empty means none.
func (r *Response) Repaired() string {
	if r.repairs == 0 {
		return ""
	}
	return r.repairs.String()
}
