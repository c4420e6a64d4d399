package h1

import "bytes"

const (
	maxChunkLineBytes      = 1 << 10 // length of one chunk-size line
	maxChunkExtensionBytes = 4 << 10 // length of all chunk extensions of a body
	maxTrailerBytes        = 8 << 10 // length of all trailers
	maxTrailerLines        = 64
)

// parseFraming parses the next element of the chunked framing from the buffered data. It returns
// errNeedMore if that element is incomplete.
func (b *Body) parseFraming() error {
	src := b.in.unread()
	if b.state == inDataEnd {
		if len(src) == 0 || len(src) == 1 && src[0] == '\r' {
			return errNeedMore
		}
		if src[0] != '\r' || src[1] != '\n' {
			return errChunkWithoutCRLF
		}
		b.in.discard(2)
		b.state = inSize
		return nil
	}
	n := bytes.IndexByte(src, '\n')
	limit, errTooLong := maxChunkLineBytes, errChunkLineTooLong
	if b.state == inTrailers {
		limit, errTooLong = maxTrailerBytes, errTooManyTrailers
	}
	switch {
	case b.isResponse && b.state == inTrailers && (b.skippingTrailerLine || n > limit || n < 0 && len(src) > limit):
		return b.skipTrailer(src, n)
	case n > limit || n < 0 && len(src) > limit:
		return errTooLong
	case n < 0:
		return errNeedMore
	case n == 0 || src[n-1] != '\r':
		return errBareLF
	}
	b.readStarted = true
	if err := b.parseLine(src[:n+1]); err != nil {
		return err
	}
	b.in.discard(n + 1)
	return nil
}

// skipTrailer discards the buffered part of a trailer line that is too long to be kept. n is the
// index of its end in src, or negative if the end has not arrived.
func (b *Body) skipTrailer(src []byte, n int) error {
	if !b.skippingTrailerLine {
		b.skippingTrailerLine = true
		b.trailerLines++
		b.dropTrailer(src[:tokenLen(src)])
	}
	switch {
	case n > 0 && src[n-1] == '\r':
		b.skippingTrailerLine = false
		b.in.discard(n + 1)
		return nil
	case n >= 0:
		return errBareLF
	case len(src) > 1:
		b.in.discard(len(src) - 1) // the last byte may be the CR
	}
	return errNeedMore
}

// parseLine parses a chunk-size line or a trailer line. l includes the CRLF.
func (b *Body) parseLine(l []byte) error {
	text := l[:len(l)-2]
	if b.state == inTrailers {
		if len(text) == 0 {
			b.state = atEnd
			return nil
		}
		return b.addTrailer(l)
	}
	size, ext, err := parseChunkSize(text, b.isResponse)
	if err != nil {
		return err
	}
	if b.extensionBytes += len(ext); b.extensionBytes > maxChunkExtensionBytes {
		return errTooManyChunkExtensions
	}
	// No implementation uses the extensions of a response, and the line ends at its CRLF for all of
	// them, unless a quoted string is open there.
	if !validExtensions(ext) && (!b.isResponse || !hasNoControlBytesSlow(ext) || bytes.IndexByte(ext, '"') >= 0) {
		return errChunkExtension
	}
	b.remaining, b.state = size, inData
	if size == 0 {
		b.state = inTrailers
	}
	return nil
}

// parseChunkSize parses 1*HEXDIG with up to 16 digits and a value of up to 2^62. It returns the
// size and the rest of the line. With padded, white space may follow the size, because old servers
// add it.
func parseChunkSize(b []byte, padded bool) (int64, []byte, error) {
	var n uint64
	i := 0
	for ; i < len(b); i++ {
		d := unhex(b[i])
		if d < 0 {
			break
		}
		if i == 16 {
			return 0, nil, errChunkSize
		}
		n = n<<4 | uint64(d)
	}
	rest := b[i:]
	if padded {
		rest = bytes.TrimLeft(rest, " \t")
	}
	if i == 0 || n > 1<<62 || len(rest) > 0 && rest[0] != ';' {
		return 0, nil, errChunkSize
	}
	return int64(n), rest, nil
}

// validExtensions reports whether b matches *( ";" token [ "=" ( token / quoted-string ) ] ).
func validExtensions(b []byte) bool {
	for len(b) > 0 {
		if b[0] != ';' {
			return false
		}
		n := tokenLen(b[1:])
		if n == 0 {
			return false
		}
		if b = b[1+n:]; len(b) == 0 || b[0] != '=' {
			continue
		}
		b = b[1:]
		if n = tokenLen(b); n == 0 {
			n = quotedLen(b)
		}
		if n == 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

func tokenLen(b []byte) int {
	n := 0
	for n < len(b) && tokenByte[b[n]] {
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
