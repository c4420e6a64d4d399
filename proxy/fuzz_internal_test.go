package proxy

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// FuzzKeys: a key is found in any bytes without a crash, never in memory beyond
// the request, and spellings of one value give one key.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("/a/b%2Fc/../d/./e"), []byte("x=1&user=a+b%20c&user=d"), []byte("sid=1; sid2=\"2\"; =; sid"), []byte("Example.COM.:8080"), []byte("Bearer e30.eyJzdWIiOiJhIn0.x"), 2)
	f.Add([]byte("/%2e%2e/%2E/"), []byte("%75ser=x"), []byte("user = 1"), []byte("[::1]:80"), []byte("bearer a.eyJzdWIiOjF9.c"), 1)
	f.Add([]byte("*"), []byte("&&=&user"), []byte(";;;"), []byte(":"), []byte("Bearer .."), 9)
	f.Add([]byte("/..;/.%2e/%"), []byte("user=%&user=%zz;user=a"), []byte("user==;"), []byte("."), []byte("Bearer a.bnVsbA.c"), 1)
	f.Fuzz(func(t *testing.T, target, query, cookie, host, auth []byte, n int) {
		before := fmt.Sprintf("%q %q %q %q %q", target, query, cookie, host, auth)
		scratch := make([]byte, 0, max(len(target), len(query), len(host)))
		n = 1 + (n&0x7fffffff)%8
		read := readPath(scratch, target)
		segment, sure := read.segment(n)
		segment = bytes.Clone(segment)
		value, same := queryValue(scratch, query, "user")
		value = bytes.Clone(value)
		sid, one := cookieValue(cookie, "user")
		name := bytes.Clone(hostName(scratch, host))
		for what, key := range map[string][]byte{
			"path": segment, "query": value, "cookie": sid, "host": name, "jwt": jwtClaim(auth, "sub"),
		} {
			if key != nil && len(key) == 0 {
				t.Fatalf("%s: an empty key: a request without one must not hash to a shard", what)
			}
		}
		if sure && bytes.HasPrefix(target, []byte("/")) {
			for _, reader := range pathReaders {
				if got := segmentOf(reader(string(target)), n); got != string(segment) {
					t.Fatalf("segment %d of %q is %q, and %q for another reader", n, target, segment, got)
				}
			}
		}
		if last := lastValue(strings.ReplaceAll(string(query), ";", "&"), "&"); same && last != string(value) {
			t.Fatalf("the query %q gives %q, and to who parts it at semicolons too %q", query, value, last)
		}
		if last := lastValue(string(query), "&"); same && last != string(value) {
			t.Fatalf("the query %q gives %q, and to who reads the last %q", query, value, last)
		}
		if last := lastCookie(string(cookie)); one && last != string(sid) {
			t.Fatalf("the cookies %q give %q, and to who reads the last %q", cookie, sid, last)
		}
		if again := bytes.Clone(hostName(scratch, bytes.ToUpper(host))); isASCII(host) && !bytes.Equal(again, name) {
			t.Fatalf("host %q gives %q, in capitals %q", host, name, again)
		}
		if bytes.IndexByte(target, '%') < 0 && bytes.HasPrefix(target, []byte("/")) {
			escaped := escape(target)
			other := readPath(make([]byte, 0, len(escaped)), escaped)
			if again, alsoSure := other.segment(n); !bytes.Equal(again, segment) || sure && !alsoSure {
				t.Fatalf("path %q gives %q %v, escaped %q %v", target, segment, sure, again, alsoSure)
			}
		}
		if after := fmt.Sprintf("%q %q %q %q %q", target, query, cookie, host, auth); after != before {
			t.Fatalf("the request changed: %s, was %s", after, before)
		}
	})
}

// pathReaders are ways in which apps take a path apart, into decoded segments.
var pathReaders = []func(string) []string{
	// They decode, then split.
	func(p string) []string { return strings.Split(decoded(p), "/") },
	// They split, then decode.
	func(p string) []string { return each(strings.Split(p, "/"), decoded) },
	// They resolve dots and merge slashes, before or after decoding.
	func(p string) []string { return strings.Split(path.Clean(decoded(p)), "/") },
	func(p string) []string { return each(strings.Split(path.Clean(p), "/"), decoded) },
	// Servlets: parameters go first.
	func(p string) []string { return each(strings.Split(p, "/"), beforeSemicolon) },
	// IIS: a backslash is a slash.
	func(p string) []string {
		return strings.Split(path.Clean(strings.ReplaceAll(decoded(p), `\`, "/")), "/")
	},
	// Empty segments do not count.
	func(p string) []string { return slices.DeleteFunc(strings.Split(decoded(p), "/")[1:], empty) },
}

// segmentOf returns segment n of a path, from 1: what stands before the first slash
// is none, and a reader that drops empty ones has dropped that too.
func segmentOf(segments []string, n int) string {
	if len(segments) > 0 && segments[0] == "" {
		segments = segments[1:]
	}
	if n > len(segments) {
		return ""
	}
	return segments[n-1]
}

func decoded(s string) string { return string(unescape(nil, []byte(s), false)) }

func empty(s string) bool { return s == "" }

func beforeSemicolon(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return decoded(s)
}

func each(list []string, f func(string) string) []string {
	for i := range list {
		list[i] = f(list[i])
	}
	return list
}

// lastValue is how PHP, Rails and Django read a query: of several the last counts.
// Empty ones are no key for anybody.
func lastValue(query, sep string) (last string) {
	for pair := range strings.SplitSeq(query, sep) {
		name, value, _ := strings.Cut(pair, "=")
		if string(unescape(nil, []byte(name), true)) == "user" && value != "" {
			last = string(unescape(nil, []byte(value), true))
		}
	}
	return last
}

func lastCookie(field string) (last string) {
	for pair := range strings.SplitSeq(field, ";") {
		if name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "="); name == "user" && value != "" {
			last = value
		}
	}
	return last
}

func isASCII(b []byte) bool { return bytes.IndexFunc(b, func(r rune) bool { return r > '~' }) < 0 }

// escape writes every byte but slashes as an escape.
func escape(path []byte) []byte {
	var out []byte
	for _, c := range path {
		if c == '/' {
			out = append(out, c)
			continue
		}
		out = fmt.Appendf(out, "%%%02x", c)
	}
	return out
}

// FuzzMapHeader: what another node says about its map is a pair of epochs or
// nothing.
func FuzzMapHeader(f *testing.F) {
	f.Add([]byte("12 13"))
	f.Add([]byte("18446744073709551615 18446744073709551616"))
	f.Add([]byte(" 1 2"))
	f.Fuzz(func(t *testing.T, v []byte) {
		committed, proposed, ok := parseMap(v)
		if !ok {
			return
		}
		again, after, ok := parseMap(appendMap(nil, committed, proposed))
		if !ok || again != committed || after != proposed {
			t.Fatalf("%q is %d %d, then %d %d", v, committed, proposed, again, after)
		}
	})
}
