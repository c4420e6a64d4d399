package pathguard

import (
	"bytes"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// Guard recognizes requests for one path. The zero value guards nothing.
type Guard struct {
	segments [][]byte // in lower case; each consists of letters, digits, - and _
}

// New returns the guard of a path that begins with a slash. An empty path guards nothing.
func New(path string) Guard {
	if path == "" {
		return Guard{}
	}
	return Guard{bytes.Split(bytes.ToLower([]byte(path[1:])), []byte("/"))}
}

// Matches reports whether an app could interpret path as the guarded path, or as a path below it.
// grow must return an empty slice with a capacity of n bytes, which Matches overwrites.
func (g *Guard) Matches(grow func(n int) []byte, path []byte) bool {
	if len(g.segments) == 0 {
		return false
	}
	if isPlain(path) {
		return g.startsPath(path)
	}
	text := decode(grow(len(path)), path)
	for range maxInvisibleRemovals {
		if g.matchesDecoded(text) {
			return true
		}
		visible := removeInvisible(text)
		if len(visible) == len(text) {
			return false
		}
		text = decode(text, visible)
	}
	return g.matchesDecoded(text)
}

// maxInvisibleRemovals is how often a server is assumed to remove invisible characters and decode
// the result again. No known server does so even twice, and each repetition costs a pass over the
// path.
const maxInvisibleRemovals = 2

// matchesDecoded is Matches for a decoded path.
func (g *Guard) matchesDecoded(text []byte) bool {
	if isAmbiguous(text) {
		return g.isSubsequenceInPath(text)
	}
	return g.startsPath(text)
}

// isPlain reports whether all servers interpret the path alike, except for letter case.
func isPlain(path []byte) bool {
	for i, c := range path {
		switch {
		case c == '%', c == ';', c == '\\', c < ' ', c >= del:
			return false
		case c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.'):
			return false
		}
	}
	return true
}

// startsPath reports whether the path begins with the guarded segments. It skips empty segments and
// segments that consist of dots.
//
// Servers that look up files on Windows ignore dots and spaces at the end of a segment.
func (g *Guard) startsPath(path []byte) bool {
	want := g.segments
	for segment := range segmentsOf(path) {
		segment = trimDotsAndSpaces(segment)
		switch {
		case len(segment) == 0:
			continue
		case !equalFoldLower(segment, want[0]):
			return false
		}
		if want = want[1:]; len(want) == 0 {
			return true
		}
	}
	return false
}

// isSubsequenceInPath reports whether the path contains the guarded segments in order, with any
// other segments in between, so that it does not matter which of those a server ignores.
func (g *Guard) isSubsequenceInPath(path []byte) bool {
	want := g.segments
	for segment := range segmentsOf(path) {
		if i := bytes.IndexAny(segment, segmentTerminators); i >= 0 {
			segment = segment[:i]
		}
		if !equalFoldLower(trimDotsAndSpaces(segment), want[0]) {
			continue
		}
		if want = want[1:]; len(want) == 0 {
			return true
		}
	}
	return false
}

// segmentTerminators are the characters that end a segment for some servers.
const segmentTerminators = ";?#\x00"

// isAmbiguous reports whether servers differ in which segments of the path they ignore. Possible
// causes are a segment "..", one of segmentTerminators, or a segment that some servers interpret as
// a host.
func isAmbiguous(path []byte) bool {
	startsWithTwoSlashes := len(path) > 1 && isSlash(path[0]) && isSlash(path[1])
	if startsWithTwoSlashes || bytes.ContainsAny(path, segmentTerminators) || bytes.Contains(path, []byte(":/")) || bytes.Contains(path, []byte(`:\`)) {
		return true
	}
	for segment := range segmentsOf(path) {
		if len(segment) > 1 && segment[0] == '.' && segment[1] == '.' && len(trimDotsAndSpaces(segment)) == 0 {
			return true
		}
	}
	return false
}

const del = 0x7f // the last ASCII control byte

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// segmentsOf yields the segments between slashes and backslashes.
func segmentsOf(path []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for {
			i := bytes.IndexAny(path, `/\`)
			if i < 0 {
				yield(path)
				return
			}
			if !yield(path[:i]) {
				return
			}
			path = path[i+1:]
		}
	}
}

// trimDotsAndSpaces returns a segment without the dots and spaces at its end.
func trimDotsAndSpaces(segment []byte) []byte {
	for n := len(segment); n > 0 && (segment[n-1] == '.' || segment[n-1] == ' '); n-- {
		segment = segment[:n-1]
	}
	return segment
}

// removeInvisible removes characters that some servers ignore from text, in place: invalid UTF-8,
// control characters and invisible characters.
func removeInvisible(text []byte) []byte {
	kept := text[:0]
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			text = text[size:]
			continue
		}
		kept = append(kept, text[:size]...)
		text = text[size:]
	}
	return kept
}

// equalFoldLower reports whether a segment equals want, which is in lower case.
func equalFoldLower(segment, want []byte) bool {
	if len(segment) != len(want) {
		return false
	}
	for i, c := range segment {
		if lower(c) != want[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// decode decodes a path completely into dst. It decodes escapes, escapes of escapes, and letters
// that some servers convert to ASCII letters. It removes line breaks and tabs, which some servers
// ignore. It decodes each sequence as soon as its last byte has been appended, so its time is
// proportional to the length of the path. No other order would decode more.
func decode(dst, path []byte) []byte {
	dst = dst[:0]
	for _, c := range path {
		dst = decodeLastSequence(append(dst, lower(c)))
	}
	return dst
}

// decodeLastSequence decodes the sequence that ends with the last byte of b. It repeats that with
// the result until no sequence ends there.
func decodeLastSequence(b []byte) []byte {
	for {
		n := len(b)
		if n == 0 {
			return b
		}
		c := b[n-1]
		var from int
		switch {
		case c == '\t' || c == '\n' || c == '\r':
			b = b[:n-1]
			continue
		case n >= 3 && b[n-3] == '%' && isHex(b[n-2:]):
			from, c = n-3, hexByte(b[n-2:])
		case n >= 6 && b[n-6] == '%' && b[n-5] == 'u' && isHex(b[n-4:]): // IIS
			high, low := hexByte(b[n-4:n-2]), hexByte(b[n-2:])
			var ok bool
			if c, ok = toASCII(rune(high)<<8 | rune(low)); !ok {
				return b
			}
			from = n - 6
		case c >= utf8.RuneSelf:
			r, size := lastRune(b)
			ascii, ok := toASCII(r)
			if !ok {
				return b
			}
			from, c = n-size, ascii
		default:
			return b
		}
		b = append(b[:from], lower(c))
	}
}

// lastRune decodes the character at the end of b. It accepts overlong encodings of up to six bytes,
// as the original UTF-8 definition did (RFC 2279). r is -1 if b does not end with a character.
func lastRune(b []byte) (r rune, size int) {
	for size = 1; size <= 6 && size <= len(b); size++ {
		c := b[len(b)-size]
		if c&0xc0 == 0x80 {
			r |= rune(c&0x3f) << (6 * (size - 1))
			continue
		}
		if lead := bits.LeadingZeros8(^c); lead != size || size < 2 {
			return -1, 0
		}
		return r | rune(c&(0x7f>>size))<<(6*(size-1)), size
	}
	return -1, 0
}

// isHex reports whether v consists of hexadecimal digits.
func isHex(v []byte) bool {
	for _, b := range v {
		digit := b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
		if !digit {
			return false
		}
	}
	return true
}

// hexByte returns the value of two hexadecimal digits in lower case.
func hexByte(b []byte) byte { return hexDigit(b[0])<<4 | hexDigit(b[1]) }

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// toASCII returns the ASCII character to which some servers convert r, because they ignore case,
// width, or the kind of a slash or a space.
func toASCII(r rune) (byte, bool) {
	switch {
	case r < utf8.RuneSelf:
		return byte(r), r >= 0
	case r >= 0xff01 && r <= 0xff5e: // full width
		return byte(r - 0xfee0), true
	case r == 'ſ':
		return 's', true
	case r == '\u212a': // kelvin sign
		return 'k', true
	case r == 'ı', r == 'İ':
		return 'i', true
	case r == '\u2044', r == '\u2215': // fraction slash, division slash
		return '/', true
	case r > del && unicode.IsSpace(r):
		return ' ', true
	}
	return 0, false
}
