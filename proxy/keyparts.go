package proxy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

// The functions of this file take a key out of one part of a request. Spellings
// that every app takes for the same value give the same key: path and query are
// percent-decoded, host names lowered. They return nil when there is none; dst is
// scratch memory for what has to be rewritten.

// normalPath decodes a path and resolves its dot segments (RFC 3986 section
// 5.2.4), in dst if anything changes. An encoded slash becomes one: apps that
// decode before they split are the common kind.
func normalPath(dst, path []byte) []byte {
	if bytes.IndexByte(path, '%') < 0 && !bytes.Contains(path, []byte("/.")) {
		return path
	}
	decoded := unescape(dst[:0], path, false)
	out := decoded[:0] // never grows beyond what has been read
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

// queryValue returns the first non-empty value of a query parameter; same tells
// that no other one differs from it, also for apps that part a query at semicolons
// (Rack before 3, Python before 3.10, CGI.pm) and that see no key but this one then.
func queryValue(dst, query []byte, name string) (value []byte, same bool) {
	same = true
	whole := query
	for len(query) > 0 {
		pair, rest, _ := bytes.Cut(query, []byte("&"))
		query = rest
		v := valueIn(pair, name)
		switch {
		case len(v) == 0:
		case value != nil:
			same = same && unescapesTo(v, value)
		case bytes.IndexByte(v, '%') < 0 && bytes.IndexByte(v, '+') < 0:
			value = v
		default:
			value = unescape(dst[:0], v, true)
		}
	}
	if bytes.IndexByte(whole, ';') < 0 {
		return value, same
	}
	for part := range bytes.FieldsFuncSeq(whole, func(r rune) bool { return r == '&' || r == ';' }) {
		if v := valueIn(part, name); len(v) > 0 {
			same = same && unescapesTo(v, value)
		}
	}
	return value, same
}

// valueIn returns the value of a pair, none if the name is another.
func valueIn(pair []byte, name string) []byte {
	n, v, _ := bytes.Cut(pair, []byte("="))
	if string(n) != name && !unescapesTo(n, name) {
		return nil
	}
	return v
}

// unescapesTo reports whether v, percent-decoded and with spaces for +, is want.
func unescapesTo[T string | []byte](v []byte, want T) bool {
	var one [1]byte
	for len(v) > 0 {
		n := 1
		if v[0] == '%' && len(v) > 2 {
			n = 3
		}
		c := unescape(one[:0], v[:n], true)
		if len(c) > 1 { // no escape
			n, c = 1, v[:1]
		}
		if len(want) == 0 || want[0] != c[0] {
			return false
		}
		v, want = v[n:], want[1:]
	}
	return len(want) == 0
}

// unescape appends v to dst, percent-decoded; what is no escape stays. A plus
// becomes a space in queries.
func unescape(dst, v []byte, plus bool) []byte {
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case c == '%' && i+2 < len(v) && unhex(v[i+1]) < 16 && unhex(v[i+2]) < 16:
			c = unhex(v[i+1])<<4 | unhex(v[i+2])
			i += 2
		case c == '+' && plus:
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// unhex returns the value of a hexadecimal digit, 16 for anything else.
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

// cookieValue returns the first non-empty value of a cookie in one Cookie field;
// same tells that no other one differs from it.
func cookieValue(field []byte, name string) (value []byte, same bool) {
	same = true
	for len(field) > 0 {
		pair, rest, _ := bytes.Cut(field, []byte(";"))
		field = rest
		n, v, _ := bytes.Cut(bytes.Trim(pair, " \t"), []byte("="))
		switch {
		case string(n) != name || len(v) == 0:
		case value == nil:
			value = v
		default:
			same = same && bytes.Equal(v, value)
		}
	}
	return value, same
}

// hostName returns a Host field lowered, without its port and final dot.
func hostName(dst, host []byte) []byte {
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	host = bytes.TrimSuffix(host, []byte("."))
	dst = dst[:0]
	for _, c := range host {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return orNil(dst)
}

// jwtClaim returns a claim of a bearer token: a string as it is, a number or
// boolean as it is written. Nothing is verified: the app does that, and a forged
// claim only chooses the node that will refuse it.
func jwtClaim(authorization []byte, claim string) []byte {
	const scheme = "bearer "
	if len(authorization) < len(scheme) || !bytes.EqualFold(authorization[:len(scheme)], []byte(scheme)) {
		return nil
	}
	parts := bytes.Split(bytes.Trim(authorization[len(scheme):], " \t"), []byte("."))
	if len(parts) != 3 {
		return nil
	}
	payload := make([]byte, base64.RawURLEncoding.DecodedLen(len(parts[1])))
	n, err := base64.RawURLEncoding.Decode(payload, parts[1])
	if err != nil {
		return nil
	}
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload[:n], &claims); err != nil {
		return nil
	}
	raw := claims[claim]
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil || s == "" {
			return nil
		}
		return []byte(s)
	case '{', '[', 'n':
		return nil
	}
	return raw
}

// orNil makes an empty value none.
func orNil(v []byte) []byte {
	if len(v) == 0 {
		return nil
	}
	return v
}
