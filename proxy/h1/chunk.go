package h1

import (
	"bytes"

	"shardway/internal/fieldname"
)

const (
	maxChunkLineBytes      = 1 << 10 // length of one chunk-size line
	maxChunkExtensionBytes = 4 << 10 // length of all chunk extensions of a body
	maxTrailerBytes        = 8 << 10 // length of all trailers
	maxTrailerLines        = 64
)

// parseFraming parses the next element of the chunked framing from the buffered data. It returns
// errNeedMore if that element is incomplete.
func (b *Body) parseFraming() error {
	if b.state == inDataEnd {
		return b.parseChunkEnd()
	}
	data := b.in.unread()
	newline := bytes.IndexByte(data, '\n')
	maxLineBytes, errTooLong := maxChunkLineBytes, errChunkLineTooLong
	if b.state == inTrailers {
		maxLineBytes, errTooLong = maxTrailerBytes, errTooManyTrailers
	}
	isTooLong := newline > maxLineBytes || newline < 0 && len(data) > maxLineBytes
	if b.isResponse && b.state == inTrailers && (isTooLong || b.skippingTrailerLine) {
		return b.skipTrailer(data, newline)
	}
	switch {
	case isTooLong:
		return errTooLong
	case newline < 0:
		return errNeedMore
	case newline == 0 || data[newline-1] != '\r':
		return errBareLF
	}
	b.readStarted = true
	if err := b.parseLine(data[:newline+1]); err != nil {
		return err
	}
	b.in.discard(newline + 1)
	return nil
}

// parseChunkEnd parses the CRLF after the data of a chunk.
func (b *Body) parseChunkEnd() error {
	data := b.in.unread()
	if len(data) == 0 || len(data) == 1 && data[0] == '\r' {
		return errNeedMore
	}
	if data[0] != '\r' || data[1] != '\n' {
		return errChunkWithoutCRLF
	}
	b.in.discard(2)
	b.state = inSize
	return nil
}

// skipTrailer discards the buffered part of a trailer line that is too long to be kept. newline is
// the index of its end in data, or negative if the end has not arrived.
func (b *Body) skipTrailer(data []byte, newline int) error {
	if !b.skippingTrailerLine {
		b.skippingTrailerLine = true
		b.trailerLines++
		b.dropTrailer(data[:tokenLen(data)])
	}
	switch {
	case newline > 0 && data[newline-1] == '\r':
		b.skippingTrailerLine = false
		b.in.discard(newline + 1)
		return nil
	case newline >= 0:
		return errBareLF
	case len(data) > 1:
		b.in.discard(len(data) - 1) // the last byte may be the CR
	}
	return errNeedMore
}

// parseLine parses a chunk-size line or a trailer line. rawLine includes the CRLF. The empty line
// after the trailers ends the body.
func (b *Body) parseLine(rawLine []byte) error {
	text := rawLine[:len(rawLine)-2]
	if b.state != inTrailers {
		return b.parseChunkSizeLine(text)
	}
	if len(text) == 0 {
		b.state = atEnd
		return nil
	}
	return b.addTrailer(rawLine)
}

// parseChunkSizeLine parses a chunk-size line, without its CRLF. Size zero announces the trailers.
func (b *Body) parseChunkSizeLine(text []byte) error {
	size, extensions, err := parseChunkSize(text, b.isResponse)
	if err != nil {
		return err
	}
	b.extensionBytes += len(extensions)
	if b.extensionBytes > maxChunkExtensionBytes {
		return errTooManyChunkExtensions
	}
	if !b.acceptsExtensions(extensions) {
		return errChunkExtension
	}
	b.remaining, b.state = size, inData
	if size == 0 {
		b.state = inTrailers
	}
	return nil
}

// acceptsExtensions reports whether the extensions of a chunk are valid. For a response, invalid
// extensions without quotes and control bytes are accepted too: no implementation uses them, and all
// implementations find the end of the line at the same CRLF.
func (b *Body) acceptsExtensions(extensions []byte) bool {
	if validExtensions(extensions) {
		return true
	}
	if !b.isResponse {
		return false
	}
	mayContainOpenQuote := bytes.IndexByte(extensions, '"') >= 0
	return !mayContainOpenQuote && hasNoControlBytesSlow(extensions)
}

// parseChunkSize parses 1*HEXDIG with up to 16 digits and a value of up to 2^62. It returns the
// size and the rest of the line. With allowPadding, white space may follow the size, because old
// servers add it.
func parseChunkSize(text []byte, allowPadding bool) (int64, []byte, error) {
	var size uint64
	digits := 0
	for ; digits < len(text); digits++ {
		digit := unhex(text[digits])
		if digit < 0 {
			break
		}
		if digits == 16 {
			return 0, nil, errChunkSize
		}
		size = size<<4 | uint64(digit)
	}
	rest := text[digits:]
	if allowPadding {
		rest = bytes.TrimLeft(rest, " \t")
	}
	hasExtensions := len(rest) > 0 && rest[0] == ';'
	if digits == 0 || size > 1<<62 || len(rest) > 0 && !hasExtensions {
		return 0, nil, errChunkSize
	}
	return int64(size), rest, nil
}

// validExtensions reports whether ext matches *( ";" token [ "=" ( token / quoted-string ) ] ).
func validExtensions(ext []byte) bool {
	for len(ext) > 0 {
		if ext[0] != ';' {
			return false
		}
		length := tokenLen(ext[1:])
		if length == 0 {
			return false
		}
		ext = ext[1+length:]
		hasValue := len(ext) > 0 && ext[0] == '='
		if !hasValue {
			continue
		}
		ext = ext[1:]
		valueLen := max(tokenLen(ext), quotedLen(ext))
		if valueLen == 0 {
			return false
		}
		ext = ext[valueLen:]
	}
	return true
}

// tokenLen returns the length of the token at the start of b, or 0 if there is none.
func tokenLen(b []byte) int {
	n := 0
	for n < len(b) && fieldname.IsTokenByte(b[n]) {
		n++
	}
	return n
}

// quotedLen returns the length of the quoted-string at the start of b, or 0 if there is none.
func quotedLen(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\' && i+1 < len(b):
			i++
			if !hasNoControlBytesSlow(b[i : i+1]) {
				return 0
			}
		case !hasNoControlBytesSlow(b[i : i+1]):
			return 0
		}
	}
	return 0
}
