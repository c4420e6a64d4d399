package keysource

import (
	"bytes"
	"math"
)

// ParsedPath is a request path as the most lenient app parses it:
//
//   - It is percent-decoded.
//   - An encoded slash and a backslash count as a slash.
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
}

// ParsePath parses a path. It uses dst as the buffer if the decoded path differs from path.
func ParsePath(dst, path []byte) ParsedPath {
	r := ParsedPath{decoded: path, agreed: math.MaxInt}
	if bytes.IndexByte(path, '%') < 0 && bytes.IndexByte(path, ';') < 0 && bytes.IndexByte(path, '\\') < 0 &&
		!bytes.Contains(path, []byte("//")) && !bytes.Contains(path, []byte("/.")) {
		return r
	}
	r.decoded = dst[:0]
	start := 0           // start of the current segment in r.decoded
	inParameter := false // the current segment contains a semicolon
	for i := 0; i < len(path); i++ {
		c, literal := path[i], true
		if c == '%' && i+2 < len(path) && unhex(path[i+1]) < 16 && unhex(path[i+2]) < 16 {
			c, literal = unhex(path[i+1])<<4|unhex(path[i+2]), false
			i += 2
		}
		slash := c == '/' || c == '\\'
		empty := slash && len(r.decoded) == start && start > 0
		if c == ';' || empty || slash && (c != '/' || !literal) {
			r.agreed = min(r.agreed, len(r.decoded))
		}
		switch {
		case slash:
			r.hasDotSegment = r.hasDotSegment || isDotSegment(r.decoded[start:])
			inParameter = false
			if empty {
				continue
			}
			r.decoded = append(r.decoded, '/')
			start = len(r.decoded)
		case c == ';':
			inParameter = true
		case !inParameter:
			r.decoded = append(r.decoded, c)
		}
	}
	r.hasDotSegment = r.hasDotSegment || isDotSegment(r.decoded[start:])
	return r
}

// isDotSegment reports whether a segment is "." or "..".
func isDotSegment(segment []byte) bool { return string(segment) == "." || string(segment) == ".." }

// Segment returns segment n, counted from 1, or nil if the path has fewer segments. unambiguous is
// false if another app may find a different segment.
func (r *ParsedPath) Segment(n int) (key []byte, unambiguous bool) {
	if r.hasDotSegment {
		return nil, false
	}
	at := 0
	for ; at < len(r.decoded) && r.decoded[at] == '/'; n-- {
		end := len(r.decoded)
		if next := bytes.IndexByte(r.decoded[at+1:], '/'); next >= 0 {
			end = at + 1 + next
		}
		if n == 1 {
			if end > at+1 {
				key = r.decoded[at+1 : end]
			}
			return key, r.agreed > end
		}
		at = end
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
	out := decoded[:0] // in-place: never longer than the part of decoded that was read
	for in := decoded; len(in) > 0; {
		end := bytes.IndexByte(in[1:], '/') + 1
		if end == 0 {
			end = len(in)
		}
		segment := in[:end]
		in = in[end:]
		switch string(segment) {
		case "/.":
			if len(in) == 0 {
				out = append(out, '/')
			}
		case "/..":
			out = out[:max(bytes.LastIndexByte(out, '/'), 0)]
			if len(in) == 0 {
				out = append(out, '/')
			}
		default:
			out = append(out, segment...)
		}
	}
	return out
}

// unescape appends v to dst and percent-decodes it. Invalid escapes remain unchanged.
func unescape(dst, v []byte) []byte {
	for i := 0; i < len(v); i++ {
		c := v[i]
		if c == '%' && i+2 < len(v) && unhex(v[i+1]) < 16 && unhex(v[i+2]) < 16 {
			c = unhex(v[i+1])<<4 | unhex(v[i+2])
			i += 2
		}
		dst = append(dst, c)
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
