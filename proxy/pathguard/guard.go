package pathguard

import (
	"bytes"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// Guard is a path of the app that is not for clients: that of its hooks. Apps differ in
// how they read a path, and one that takes another spelling for this one must not see
// it. So what could be read as the path, or as one below it, by anybody, is.
type Guard struct {
	segments [][]byte // in small letters, each of letters, digits, - and _; none: nothing is hidden
}

func New(path string) Guard {
	if path == "" {
		return Guard{}
	}
	return Guard{bytes.Split(bytes.ToLower([]byte(path[1:])), []byte("/"))}
}

// Matches reports whether somebody reads path as the hidden one, or one below it. grown
// returns memory for so many bytes.
func (h *Guard) Matches(grown func(n int) []byte, path []byte) bool {
	if len(h.segments) == 0 {
		return false
	}
	if plainPath(path) {
		return h.begins(path)
	}
	text := plainest(grown(len(path)), path)
	for range dropsMost {
		if h.read(text) {
			return true
		}
		seen := visible(text)
		if len(seen) == len(text) {
			return false
		}
		text = plainest(text, seen)
	}
	return h.read(text)
}

// dropsMost is how often a reader may leave out what means nothing, and decode what is
// left once more. None is known that does it twice; each time costs a pass.
const dropsMost = 2

func (h *Guard) read(text []byte) bool {
	if loosely(text) {
		return h.within(text)
	}
	return h.begins(text)
}

// plainPath reports whether everybody reads the path alike but for the case of letters.
func plainPath(path []byte) bool {
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

// begins reports whether the path begins with the hidden segments. Empty ones and dots
// between them do not count.
//
// Whoever looks for a file on Windows leaves out dots and blanks at the end of a segment.
func (h *Guard) begins(path []byte) bool {
	want := h.segments
	for segment := range segmentsOf(path) {
		segment = trimmed(segment)
		switch {
		case len(segment) == 0:
			continue
		case !foldedEqual(segment, want[0]):
			return false
		}
		if want = want[1:]; len(want) == 0 {
			return true
		}
	}
	return false
}

// within reports whether the hidden segments stand in the path in their order. Whatever
// a reader leaves out of it, he sees no others.
func (h *Guard) within(path []byte) bool {
	want := h.segments
	for segment := range segmentsOf(path) {
		if i := bytes.IndexAny(segment, cutters); i >= 0 {
			segment = segment[:i]
		}
		if !foldedEqual(trimmed(segment), want[0]) {
			continue
		}
		if want = want[1:]; len(want) == 0 {
			return true
		}
	}
	return false
}

// cutters end a segment for some readers.
const cutters = ";?#\x00"

// loosely reports whether readers differ in which segments of the path they leave out:
// because of a segment .., of what cuts one, or of what some take for a host.
func loosely(path []byte) bool {
	twice := len(path) > 1 && isSlash(path[0]) && isSlash(path[1])
	if twice || bytes.ContainsAny(path, cutters) || bytes.Contains(path, []byte(":/")) || bytes.Contains(path, []byte(`:\`)) {
		return true
	}
	for segment := range segmentsOf(path) {
		if len(segment) > 1 && segment[0] == '.' && segment[1] == '.' && len(trimmed(segment)) == 0 {
			return true
		}
	}
	return false
}

const del = 0x7f // the last control byte of ASCII

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// segmentsOf yields what stands between the slashes, of either kind.
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

// trimmed returns a segment without the dots and blanks at its end.
func trimmed(segment []byte) []byte {
	for n := len(segment); n > 0 && (segment[n-1] == '.' || segment[n-1] == ' '); n-- {
		segment = segment[:n-1]
	}
	return segment
}

// visible returns the text, in its own memory, without what some readers leave out: what
// is no UTF-8, control bytes, and signs that cannot be seen.
func visible(text []byte) []byte {
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

// foldedEqual compares a segment with one in small letters.
func foldedEqual(segment, small []byte) bool {
	if len(segment) != len(small) {
		return false
	}
	for i, c := range segment {
		if lower(c) != small[i] {
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

// plainest decodes a path, in dst, until there is nothing left to decode: escapes, those
// of escapes, and letters that some take for others. Line breaks and tabs, which some
// readers leave out, are left out. It takes time in proportion to the path: whatever a
// byte completes is decoded as it comes, and there is no other order in which more would
// be.
func plainest(dst, path []byte) []byte {
	dst = dst[:0]
	for _, c := range path {
		dst = shortened(append(dst, lower(c)))
	}
	return dst
}

// shortened decodes what the last byte of b completes, and what that completes.
func shortened(b []byte) []byte {
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
			from, c = n-3, hexOf(b[n-2:])
		case n >= 6 && b[n-6] == '%' && b[n-5] == 'u' && isHex(b[n-4:]): // IIS
			high, low := hexOf(b[n-4:n-2]), hexOf(b[n-2:])
			var ok bool
			if c, ok = alikeOf(rune(high)<<8 | rune(low)); !ok {
				return b
			}
			from = n - 6
		case c >= utf8.RuneSelf:
			r, size := longest(b)
			alike, ok := alikeOf(r)
			if !ok {
				return b
			}
			from, c = n-size, alike
		default:
			return b
		}
		b = append(b[:from], lower(c))
	}
}

// longest decodes the letter at the end of b, also one that takes more bytes than UTF-8
// allows for it, up to the six of its first definition (RFC 2279); -1 if there is none.
func longest(b []byte) (r rune, size int) {
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

// hexOf returns the value of two hexadecimal digits in small letters.
func hexOf(b []byte) byte { return digit(b[0])<<4 | digit(b[1]) }

func digit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// alikeOf returns the byte of ASCII that some readers take r for: without regard to
// case, to width, or to which slash or blank it is.
func alikeOf(r rune) (byte, bool) {
	switch {
	case r < utf8.RuneSelf:
		return byte(r), r >= 0
	case r >= 0xff01 && r <= 0xff5e: // full width
		return byte(r - 0xfee0), true
	case r == 'ſ':
		return 's', true
	case r == '\u212a': // the sign of the kelvin
		return 'k', true
	case r == 'ı', r == 'İ':
		return 'i', true
	case r == '\u2044', r == '\u2215': // slashes of fractions and divisions
		return '/', true
	case r > del && unicode.IsSpace(r):
		return ' ', true
	}
	return 0, false
}
