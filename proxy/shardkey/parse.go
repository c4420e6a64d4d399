package shardkey

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"github.com/valyala/fasthttp"
)

// The functions of this file take a key out of one part of a request. Spellings
// that every app takes for the same value give the same key: queries are
// percent-decoded, host names lowered. They return nil when there is none; dst is
// scratch memory for what has to be rewritten.

// queryValue returns the first non-empty value of a query parameter, in dst; same
// tells that no other one differs from it, also for apps that part a query at
// semicolons (Rack before 3, Python before 3.10, CGI.pm), which see this key and no
// other then.
//
// fasthttp.Args decodes one pair after the other. Given the whole query, it would
// keep some 60 bytes for each pair of two; and what it says of several values and
// of semicolons is not asked.
func queryValue(dst, query []byte, name string) (value []byte, same bool) {
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	same = true
	for pair := range bytes.SplitSeq(query, []byte("&")) {
		v, sure := valueIn(args, pair, name)
		same = same && sure
		switch {
		case v == nil:
		case value == nil:
			value = append(dst[:0], v...)
		default:
			same = same && bytes.Equal(v, value)
		}
	}
	if bytes.IndexByte(query, ';') < 0 {
		return value, same
	}
	seen := false
	for part := range bytes.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		if v, _ := valueIn(args, part, name); v != nil {
			seen = true
			same = same && bytes.Equal(v, value)
		}
	}
	return value, same && seen == (value != nil)
}

// valueIn returns the value of a pair, nil if it is empty or the name is another.
// Not sure: Args keeps a plus behind a percent sign at the very end, which others
// read as a space there too. (Of a name, theirs is none that can be configured.)
func valueIn(args *fasthttp.Args, pair []byte, name string) (value []byte, sure bool) {
	args.ParseBytes(pair)
	if value = args.Peek(name); len(value) == 0 {
		return nil, true
	}
	half := []byte("%+")
	n, v, _ := bytes.Cut(pair, []byte("="))
	return value, !bytes.HasSuffix(n, half) && !bytes.HasSuffix(v, half)
}

// cookieValue returns the first non-empty value of a cookie in one Cookie field; same
// tells that no other one differs from it, also for apps that pass over blanks beside the
// equals sign (Go, Django, Express) or part cookies at them (Python's http.cookies), of
// which some see this key, or another one, and others do not.
func cookieValue(field []byte, name string) (value []byte, same bool) {
	same = true
	for pair := range bytes.SplitSeq(field, []byte(";")) {
		pair = bytes.Trim(pair, blanks)
		n, v, _ := bytes.Cut(pair, []byte("="))
		switch {
		case string(n) != name || len(v) == 0:
		case value == nil:
			value = v
		default:
			same = same && bytes.Equal(v, value)
		}
		same = same && !blankCookie(pair, n, v, name)
	}
	return value, same
}

// blanks are the white space of RFC 9110.
const blanks = " \t"

// blankCookie reports whether blanks in a pair of a Cookie field have some read the cookie
// otherwise than others. Those within quotes are nobody's ends.
func blankCookie(pair, n, v []byte, name string) bool {
	if len(v) > 1 && v[0] == '"' && bytes.IndexByte(v[1:], '"') == len(v)-2 {
		pair = pair[:len(n)+1]
	}
	if !bytes.ContainsAny(pair, blanks) {
		return false
	}
	for {
		after, begins := bytes.CutPrefix(pair, []byte(name))
		if begins && bytes.HasPrefix(bytes.TrimLeft(after, blanks), []byte("=")) {
			return true
		}
		i := bytes.IndexAny(pair, blanks)
		if i < 0 {
			return false
		}
		pair = bytes.TrimLeft(pair[i:], blanks)
	}
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
	raw := rawClaim(authorization, claim)
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

// rawClaim returns a claim of a bearer token as JSON, nil without a token or such a claim.
func rawClaim(authorization []byte, claim string) json.RawMessage {
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
	return claims[claim]
}

// orNil makes an empty value none.
func orNil(v []byte) []byte {
	if len(v) == 0 {
		return nil
	}
	return v
}
