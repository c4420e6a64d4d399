package h1

import (
	"bytes"
	"iter"
	"slices"
	"unsafe"

	"shardway/internal/fieldname"
)

// Errors for the fields that frame a message.
var (
	errRepeatedContentLength       = &Error{400, "more than one Content-Length"}
	errInvalidContentLength        = &Error{400, "a bad Content-Length"}
	errRepeatedTransferEncoding    = &Error{400, "more than one Transfer-Encoding"}
	errUnsupportedTransferEncoding = &Error{400, "a Transfer-Encoding other than chunked"}
	errTransferEncodingInHTTP10    = &Error{400, "Transfer-Encoding in HTTP/1.0"}
	errLengthAndTransferEncoding   = &Error{400, "both Content-Length and Transfer-Encoding"}
	errInvalidConnection           = &Error{400, "a bad Connection header"}
)

// Header is a validated header section, including the start line, in its original form. The results
// of its methods are valid until the next message is read into it.
type Header struct {
	raw          []byte   // from the start line to the empty line, both included
	lines        []line   // index of the field lines, in order
	startLineLen int      // length of the start line with its CRLF; zero means that it has not arrived
	knownFields  FieldSet // known fields that occur at least once

	minor       uint8       // minor version of HTTP/1: 0 or 1
	connOptions connOptions // options of the Connection fields
	length      int64       // Content-Length; -1 means none

	// Progress of parseLines.
	parsedLen   int // number of bytes that have been parsed
	foldedLines int // number of folded lines that were joined; each counts as a line

	// lenient is true for responses: a violation of RFC 9112 that has only one possible meaning is
	// repaired instead of rejected (repair.go). For requests it is false, and every violation is an
	// error.
	lenient bool
	repairs repairs
	// deferredFramingError is the error in the framing fields of a lenient header; nil means none.
	// It is reported only if the message has a body.
	deferredFramingError *Error
}

// connOptions is a set of connection options.
type connOptions uint8

const (
	optClose connOptions = 1 << iota
	optKeepAlive
	optUpgrade
)

// maxReusedHeader is the maximum size, in bytes, of the buffer that a Header keeps for its next
// message.
const maxReusedHeader = 16 << 10

// reset prepares h for the next message, and keeps its memory.
func (h *Header) reset() {
	if cap(h.raw) > maxReusedHeader {
		h.raw = nil
	}
	if h.lines == nil {
		h.lines = make([]line, 0, 32)
	}
	*h = Header{raw: h.raw[:0], lines: h.lines[:0], length: -1}
}

// MemorySize returns the size in bytes of the header and of the index of its lines.
func (h *Header) MemorySize() int { return cap(h.raw) + cap(h.lines)*int(unsafe.Sizeof(line{})) }

// Compact releases the index's unused capacity. It is meant for headers that are kept for a long
// time.
func (h *Header) Compact() { h.lines = slices.Clone(h.lines) }

// Clear drops the header and releases its memory. Earlier results of its methods stay valid.
func (h *Header) Clear() { *h = Header{length: -1} }

// Raw returns the complete header section in its original form, including the empty line.
func (h *Header) Raw() []byte { return h.raw }

// Minor returns the minor version: 0 or 1.
func (h *Header) Minor() int { return int(h.minor) }

// NumFields returns the number of header lines.
func (h *Header) NumFields() int { return len(h.lines) }

// Field returns the name and the value of header line i in their original form, without white space
// around the value.
func (h *Header) Field(i int) (name, value []byte) {
	return h.nameOf(&h.lines[i]), h.valueOf(&h.lines[i])
}

// nameOf returns the name of a header line of h.
func (h *Header) nameOf(fieldLine *line) []byte { return h.raw[fieldLine.start:fieldLine.colon] }

// valueOf returns the value of a header line of h, without surrounding white space.
func (h *Header) valueOf(fieldLine *line) []byte {
	return h.raw[fieldLine.valueStart:fieldLine.valueEnd]
}

// All yields the header lines in order.
func (h *Header) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := range h.lines {
			if !yield(h.Field(i)) {
				return
			}
		}
	}
}

// Has reports whether the header contains a known field. It is one bit test. field must not be
// FieldOther.
func (h *Header) Has(field Field) bool { return h.knownFields.Has(field) }

// Known returns the value of the first line of a known field, or nil.
func (h *Header) Known(field Field) []byte {
	if !h.knownFields.Has(field) {
		return nil
	}
	for i := range h.lines {
		if fieldLine := &h.lines[i]; fieldLine.field == field {
			return slices.Clip(h.valueOf(fieldLine))
		}
	}
	return nil
}

// Value returns the value of the first line with this name, or nil. Case is ignored.
func (h *Header) Value(name string) []byte {
	if i := h.Find(name, 0); i >= 0 {
		_, v := h.Field(i)
		return v
	}
	return nil
}

// Find returns the index of the first line with this name, beginning with line from, or -1. Case is
// ignored.
func (h *Header) Find(name string, from int) int {
	for i := from; i < len(h.lines); i++ {
		lineName := h.nameOf(&h.lines[i])
		if len(lineName) == len(name) && equalFoldSameLen(lineName, name) {
			return i
		}
	}
	return -1
}

// FindLookalike is Find, but treats all bytes that are neither letters nor digits as equal. CGI and
// WSGI apps do not distinguish _ from -, and some apps do not distinguish other bytes either.
func (h *Header) FindLookalike(name string, from int) int {
	for i := from; i < len(h.lines); i++ {
		lineName := h.nameOf(&h.lines[i])
		if len(lineName) == len(name) && equalLookalike(lineName, name) {
			return i
		}
	}
	return -1
}

// KnownField returns the known field of header line i, or FieldOther.
func (h *Header) KnownField(i int) Field { return h.lines[i].field }

// IsConnectionOption reports whether the Connection field names header line i, so that the line is
// hop-by-hop.
func (h *Header) IsConnectionOption(i int) bool { return h.lines[i].notForwarded }

// ContentLength returns the declared length, or -1. The response to HEAD may declare a
// length, and has no body.
func (h *Header) ContentLength() int64 { return h.length }

// parseLines parses the lines of data, the part of a header that has been read. It continues after
// the last line that an earlier call has parsed. It returns the length of the header once the empty
// line has arrived, and zero before that. parseStartLine parses the start line without its CRLF.
func (h *Header) parseLines(data []byte, maxLines int, parseStartLine func([]byte) *Error) (int, *Error) {
	for {
		rest := data[h.parsedLen:]
		newline := bytes.IndexByte(rest, '\n')
		if newline < 0 {
			return 0, nil
		}
		if newline == 0 || rest[newline-1] != '\r' {
			return 0, errBareLF
		}
		text := rest[:newline-1]
		end := h.parsedLen + newline + 1
		switch {
		case h.startLineLen == 0:
			if err := parseStartLine(text); err != nil {
				return 0, err
			}
			h.startLineLen = end
		case len(text) == 0:
			return end, nil
		default:
			if err := h.parseNextLine(data, end, maxLines); err != nil {
				return 0, err
			}
		}
		h.parsedLen = end
	}
}

// parseNextLine parses the field line that ends at offset end of data, with its CRLF. In a lenient
// header, a folded line first becomes a part of the line before it.
func (h *Header) parseNextLine(data []byte, end, maxLines int) *Error {
	if len(h.lines)+h.foldedLines >= maxLines {
		return errTooManyLines
	}
	text := data[h.parsedLen : end-2]
	if h.lenient && h.joinFoldedLine(data, text) {
		text = data[h.parsedLen : end-2] // now parsedLen is the start of the joined line
	}
	return h.addLine(text, uint32(end))
}

// addLine parses text, a field line without its CRLF, and adds it to the index. The line begins at
// offset parsedLen of the header, and the next line at offset next.
func (h *Header) addLine(text []byte, next uint32) *Error {
	h.lines = append(h.lines, line{})
	fieldLine := &h.lines[len(h.lines)-1]
	if err := parseFieldLine(text, fieldLine); err != nil {
		if !h.lenient || !h.repairs.repairLine(text, fieldLine, err) {
			return err
		}
	}
	value := text[fieldLine.valueStart:fieldLine.valueEnd]
	if err := h.checkFramingField(fieldLine.field, value); err != nil {
		return err
	}
	offset := uint32(h.parsedLen)
	fieldLine.start += offset
	fieldLine.colon += offset
	fieldLine.valueStart += offset
	fieldLine.valueEnd += offset
	fieldLine.next = next
	h.knownFields |= 1 << fieldLine.field
	return nil
}

// checkFramingField validates the value of a field that determines where the message ends or which
// host it is for. It accepts all other fields.
func (h *Header) checkFramingField(field Field, value []byte) *Error {
	repeated := h.knownFields.Has(field)
	switch field { //nolint:exhaustive // the other fields do not frame the message
	case FieldContentLength:
		return h.parseContentLength(value, repeated)
	case FieldTransferEncoding:
		if repeated {
			return h.framingError(errRepeatedTransferEncoding)
		}
		if !equalFoldLower(value, "chunked") {
			return h.framingError(errUnsupportedTransferEncoding)
		}
	case FieldHost:
		if repeated && !h.lenient { // a response may contain any Host, without effect
			return errRepeatedHost
		}
	}
	return nil
}

// parseContentLength parses a Content-Length line. repeated is set for all but the first line.
func (h *Header) parseContentLength(value []byte, repeated bool) *Error {
	if repeated && !h.lenient {
		return errRepeatedContentLength
	}
	length, ok := parseLength(value)
	if !ok && h.lenient {
		if length, ok = parseEqualLengths(value); ok {
			h.repairs |= mergedContentLengths
		}
	}
	switch {
	case !ok:
		return h.framingError(errInvalidContentLength)
	case repeated && length != h.length:
		return h.framingError(errRepeatedContentLength)
	case repeated:
		h.repairs |= mergedContentLengths
	}
	h.length = length
	return nil
}

// framingError rejects a header for its framing fields. For a lenient header the error is deferred
// until it is known whether the message has a body.
func (h *Header) framingError(err *Error) *Error {
	if !h.lenient {
		return err
	}
	if h.deferredFramingError == nil {
		h.deferredFramingError = err
	}
	return nil
}

// checkFraming validates the fields that frame the message. h.raw must contain the complete header.
func (h *Header) checkFraming() *Error {
	if h.knownFields.Has(FieldTransferEncoding) {
		if h.minor == 0 {
			if err := h.framingError(errTransferEncodingInHTTP10); err != nil {
				return err
			}
		}
		if h.knownFields.Has(FieldContentLength) {
			if err := h.framingError(errLengthAndTransferEncoding); err != nil {
				return err
			}
		}
		if h.knownFields.Has(FieldTrailer) {
			h.dropBadTrailerNames()
		}
	}
	if h.knownFields.Has(FieldConnection) {
		return h.parseConnection()
	}
	return nil
}

// parseLength parses a Content-Length of 1 to 18 digits, which always fits in an int64.
func parseLength(text []byte) (int64, bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	var length int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		length = length*10 + int64(c-'0')
	}
	return length, true
}

// persistent reports whether the sender keeps the connection open after the message.
func (h *Header) persistent() bool {
	if h.connOptions&optClose != 0 {
		return false
	}
	return h.minor == 1 || h.connOptions&optKeepAlive != 0
}

// equalFoldSameLen compares ASCII strings of equal length, ignoring case.
func equalFoldSameLen[T string | []byte](b []byte, s T) bool {
	for i, c := range b {
		other := s[i]
		if c == other {
			continue
		}
		lower := c | 0x20 // c in lower case, if c is a letter
		isLetter := lower >= 'a' && lower <= 'z'
		if !isLetter || lower != other|0x20 {
			return false
		}
	}
	return true
}

// equalLookalike is equalFoldSameLen, but treats all bytes that are neither letters nor digits as
// equal.
func equalLookalike(b []byte, s string) bool {
	for i, c := range b {
		if other := s[i]; c != other && fieldname.NormalizeByte(c) != fieldname.NormalizeByte(other) {
			return false
		}
	}
	return true
}
