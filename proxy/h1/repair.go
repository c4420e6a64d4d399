package h1

import (
	"bytes"
	"strings"
)

// By the time a response arrives, the app has run the request, and rejecting the response would
// lose the result for the client. Each rule therefore asks whether HTTP implementations could
// interpret the message differently. If they could, the response is rejected: its meaning is
// ambiguous, and an attacker could make a client see a response that no app sent. Otherwise the
// response is repaired. If bytes that belong to no response could follow, the connection to the app
// is closed after it.
//
// Invalid requests are always rejected: nothing has run yet, and the client learns what to correct.

// repairs is the set of repairs of a response.
type repairs uint16

const (
	// ignoredBodyFraming means that Content-Length or Transfer-Encoding was removed from a response
	// that cannot have a body (RFC 9112 section 6.3, rule 1).
	ignoredBodyFraming repairs = 1 << iota
	// mergedContentLengths means that several equal Content-Length fields were replaced by one
	// (RFC 9112 section 6.3, rule 5).
	mergedContentLengths
	// removedSpaceBeforeColon means that white space before a colon was removed (RFC 9112 section
	// 5.1).
	removedSpaceBeforeColon
	// joinedFoldedLine means that a folded line was joined (RFC 9112 section 5.2).
	joinedFoldedLine
	// replacedControlByte means that a control byte was replaced by a space (RFC 9110 section 5.5).
	replacedControlByte
	// ignoredConnectionOption means that an option of Connection was ignored because it is not a
	// token.
	ignoredConnectionOption
	// removedFieldWithBadName means that a field was removed because its name is not a token.
	removedFieldWithBadName
)

var repairTexts = [...]string{
	"framing fields on a response without a body", "equal Content-Length fields", "white space before a colon",
	"a folded header line", "a control byte", "a bad option in Connection", "a field with a bad name",
}

// String returns the list of repairs. It is empty if there are none.
func (s repairs) String() string {
	var texts []string
	for i, text := range repairTexts {
		if s&(1<<i) != 0 {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// repairLine repairs a header line, without its CRLF, in place, and adds the repair to s. It
// reports whether the line is now valid, in which case parsed is the result. err is the error with
// which parseFieldLine rejected the line.
//
// A framing field is not repaired, and its bytes stay unchanged, because a rejected header may be
// parsed again from the same buffer. A field whose name is not a token is marked with notForwarded.
func (s *repairs) repairLine(text []byte, parsed *line, err *Error) bool {
	if isFramingName(text[:tokenLen(text)]) {
		return false
	}
	if err == errInvalidNameByte {
		if !parsed.parseBadName(text) {
			return false
		}
		*s |= removedFieldWithBadName
		return true
	}
	for range 2 { // a line may have both errors
		switch {
		case err == errSpaceInName && moveColon(text):
			*s |= removedSpaceBeforeColon
		case err == errControlByteInValue && replaceControlBytes(text):
			*s |= replacedControlByte
		default:
			return false
		}
		if err = parseFieldLine(text, parsed); err == nil {
			return true
		}
	}
	return false
}

// parseBadName parses a header line whose name is not a token. It reports whether the line has only
// one possible interpretation. That requires a colon after the name. The line must not contain
// white space or control bytes that some implementations treat as the end of a name or line. In
// addition, the name must not resemble that of a framing field.
func (l *line) parseBadName(text []byte) bool {
	colon := bytes.IndexByte(text, ':')
	if colon <= 0 {
		return false
	}
	name := text[:colon]
	mayEndEarlier := bytes.ContainsAny(name, " \t") || !hasNoControlBytes(text)
	if mayEndEarlier || resemblesFramingName(name) {
		return false
	}
	end := uint32(len(text))
	*l = line{colon: uint32(colon), valueStart: end, valueEnd: end, field: FieldOther, notForwarded: true}
	return true
}

// resemblesFramingName reports whether name contains the name of a framing field when all
// characters other than letters are ignored. A non-ASCII letter whose uppercase form is an ASCII
// letter is treated as that letter.
func resemblesFramingName(name []byte) bool {
	letters := bytes.Map(func(r rune) rune {
		if r < 'A' || r > 'Z' {
			return -1
		}
		return r
	}, bytes.ToUpper(name))
	return bytes.Contains(letters, []byte("CONTENTLENGTH")) || bytes.Contains(letters, []byte("TRANSFERENCODING"))
}

// isFramingName reports whether name is the name of a field that determines the end of a message.
func isFramingName(name []byte) bool {
	return bytes.EqualFold(name, []byte("Content-Length")) || bytes.EqualFold(name, []byte("Transfer-Encoding"))
}

// moveColon moves the colon of "Name : value" to immediately after the name. It reports whether the
// line has this form.
func moveColon(text []byte) bool {
	nameLen := tokenLen(text)
	rest := bytes.TrimLeft(text[nameLen:], " \t")
	if nameLen == 0 || len(rest) == 0 || rest[0] != ':' {
		return false
	}
	rest[0], text[nameLen] = ' ', ':'
	return true
}

// replaceControlBytes replaces control bytes with spaces. It returns false if one of them is NUL,
// CR or LF, because HTTP implementations differ in whether these bytes end a line.
func replaceControlBytes(text []byte) bool {
	if bytes.ContainsAny(text, "\x00\r\n") {
		return false
	}
	for i, c := range text {
		if c < ' ' && c != '\t' || c == 0x7f {
			text[i] = ' '
		}
	}
	return true
}

// joinFoldedLine joins text, the next line, to the last header line of h in data if it is a
// continuation line. It replaces the CRLF between them with two spaces, and the caller must parse
// the joined line again. joinFoldedLine does not join lines of known fields. It also does not join
// a line that contains only white space, because some implementations regard it as the end of the
// header.
func (h *Header) joinFoldedLine(data, text []byte) bool {
	startsWithSpace := text[0] == ' ' || text[0] == '\t'
	isContinuation := startsWithSpace && len(trimOWS(text)) > 0
	if !isContinuation || len(h.lines) == 0 {
		return false
	}
	last := &h.lines[len(h.lines)-1]
	if last.field != FieldOther {
		return false
	}
	data[h.parsedLen-2], data[h.parsedLen-1] = ' ', ' '
	h.parsedLen = int(last.start)
	h.lines = h.lines[:len(h.lines)-1]
	h.repairs |= joinedFoldedLine
	h.foldedLines++
	return true
}

// parseEqualLengths parses a list of equal lengths, and returns their value.
func parseEqualLengths(list []byte) (int64, bool) {
	first, rest, more := cutListElement(list)
	length, ok := parseLength(first)
	for ok && more {
		var element []byte
		element, rest, more = cutListElement(rest)
		other, valid := parseLength(element)
		ok = valid && other == length
	}
	return length, ok
}

// Repairs returns the list of repairs of the header. It is empty if there are none.
func (r *Response) Repairs() string {
	if r.repairs == 0 {
		return ""
	}
	return r.repairs.String()
}
