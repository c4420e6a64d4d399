package keysource

import (
	"bytes"
	"math"
)

// ParsedPath is a request path as the most lenient app parses it:
//
//   - It is percent-decoded.
//   - An encoded slash and a backslash are treated as a slash.
//   - A semicolon and the rest of its segment are removed.
//   - Empty segments are removed.
//
// Apps differ in which of these steps they perform. ParsedPath reports which segments are the same
// for all apps.
type ParsedPath struct {
	decoded []byte
	// agreed is the length of the prefix of decoded on which all apps agree. math.MaxInt means that
	// they agree on the whole path.
	agreed int
	// hasDotSegment is true if a segment is "." or "..", which can affect all other segments.
	hasDotSegment bool
	// hasInvalidByte is true if an escape stands for a control character, or for a byte that is never part of
	// UTF-8. Apps end the path there, remove the byte, or decode the sequence in another way.
	hasInvalidByte bool
	// hasEscapedEnd is true if an escape stands for a question mark or a number sign. An app that decodes a path
	// before it parses the path ends the path there.
	hasEscapedEnd bool
}

// ParsePath parses a path. It uses dst as the buffer if the decoded path differs from path.
func ParsePath(dst, path []byte) ParsedPath {
	parsed := ParsedPath{decoded: path, agreed: math.MaxInt}
	if isPlainPath(path) {
		return parsed
	}
	parsed.decoded = dst[:0]
	start := 0           // start of the current segment in parsed.decoded
	inParameter := false // the current segment contains a semicolon
	for i := 0; i < len(path); i++ {
		char, isEscaped := path[i], isEscape(path[i:])
		if isEscaped {
			char = unhex(path[i+1])<<4 | unhex(path[i+2])
			i += 2
			parsed.hasInvalidByte = parsed.hasInvalidByte || char < ' ' || char == 0x7f || char == 0xc0 || char == 0xc1 || char > 0xf4
			parsed.hasEscapedEnd = parsed.hasEscapedEnd || char == '?' || char == '#'
		}
		isSlash := char == '/' || char == '\\'
		isUnusualSlash := isSlash && (char != '/' || isEscaped)
		isEmptySegment := isSlash && len(parsed.decoded) == start && start > 0
		if char == ';' || isEmptySegment || isUnusualSlash { // from here on, apps differ
			parsed.agreed = min(parsed.agreed, len(parsed.decoded))
		}
		switch {
		case isSlash:
			parsed.hasDotSegment = parsed.hasDotSegment || isDotSegment(parsed.decoded[start:])
			inParameter = false
			if isEmptySegment {
				continue
			}
			parsed.decoded = append(parsed.decoded, '/')
			start = len(parsed.decoded)
		case char == ';':
			inParameter = true
		case !inParameter:
			parsed.decoded = append(parsed.decoded, char)
		}
	}
	parsed.hasDotSegment = parsed.hasDotSegment || isDotSegment(parsed.decoded[start:])
	return parsed
}

// isPlainPath reports whether all apps parse the path in the same way without decoding it. It is the
// usual case.
func isPlainPath(path []byte) bool {
	hasSpecialByte := bytes.IndexByte(path, '%') >= 0 || bytes.IndexByte(path, ';') >= 0 || bytes.IndexByte(path, '\\') >= 0
	return !hasSpecialByte && !bytes.Contains(path, []byte("//")) && !bytes.Contains(path, []byte("/."))
}

// isEscape reports whether text starts with a valid percent escape.
func isEscape(text []byte) bool {
	return len(text) > 2 && text[0] == '%' && unhex(text[1]) < 16 && unhex(text[2]) < 16
}

// isDotSegment reports whether a segment is "." or "..".
func isDotSegment(segment []byte) bool { return string(segment) == "." || string(segment) == ".." }

// Segment returns the segment with the given number, counted from 1, or nil if the path has fewer
// segments. unambiguous is false if another app may find a different segment.
func (r *ParsedPath) Segment(number int) (key []byte, unambiguous bool) {
	if r.hasDotSegment {
		return nil, false
	}
	start := 0
	for ; start < len(r.decoded) && r.decoded[start] == '/'; number-- {
		end := len(r.decoded)
		if next := bytes.IndexByte(r.decoded[start+1:], '/'); next >= 0 {
			end = start + 1 + next
		}
		if number == 1 {
			if end > start+1 {
				key = r.decoded[start+1 : end]
			}
			return key, r.agreed > end
		}
		start = end
	}
	return nil, r.agreed == math.MaxInt
}

// NormalPath percent-decodes a path and resolves its dot segments (RFC 3986, section 5.2.4). It
// uses dst as the buffer if the result differs from path. An encoded slash becomes a slash,
// because most apps decode a path before they split it.
func NormalPath(dst, path []byte) []byte {
	if bytes.IndexByte(path, '%') < 0 && !bytes.Contains(path, []byte("/.")) {
		return path
	}
	decoded := unescape(dst[:0], path)
	normal := decoded[:0] // in-place: never longer than the part of decoded that was read
	for remaining := decoded; len(remaining) > 0; {
		end := bytes.IndexByte(remaining[1:], '/') + 1
		if end == 0 {
			end = len(remaining)
		}
		segment := remaining[:end]
		remaining = remaining[end:]
		switch string(segment) {
		case "/.":
			if len(remaining) == 0 {
				normal = append(normal, '/')
			}
		case "/..":
			normal = normal[:max(bytes.LastIndexByte(normal, '/'), 0)]
			if len(remaining) == 0 {
				normal = append(normal, '/')
			}
		default:
			normal = append(normal, segment...)
		}
	}
	return normal
}

// unescape appends text to dst and percent-decodes it. Invalid escapes remain unchanged.
func unescape(dst, text []byte) []byte {
	for i := 0; i < len(text); i++ {
		char := text[i]
		if isEscape(text[i:]) {
			char = unhex(text[i+1])<<4 | unhex(text[i+2])
			i += 2
		}
		dst = append(dst, char)
	}
	return dst
}

// unhex returns the value of a hexadecimal digit, or 16 for any other byte.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
