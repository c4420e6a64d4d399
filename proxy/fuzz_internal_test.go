package proxy

import (
	"bytes"
	"fmt"
	"testing"
)

// FuzzKeys: a key is found in any bytes without a crash, never in memory beyond
// the request, and spellings of one value give one key.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("/a/b%2Fc/../d/./e"), []byte("x=1&user=a+b%20c&user=d"), []byte("sid=1; sid2=\"2\"; =; sid"), []byte("Example.COM.:8080"), []byte("Bearer e30.eyJzdWIiOiJhIn0.x"), 2)
	f.Add([]byte("/%2e%2e/%2E/"), []byte("%75ser=x"), []byte("user = 1"), []byte("[::1]:80"), []byte("bearer a.eyJzdWIiOjF9.c"), 1)
	f.Add([]byte("*"), []byte("&&=&user"), []byte(";;;"), []byte(":"), []byte("Bearer .."), 9)
	f.Add([]byte("/..;/.%2e/%"), []byte("user=%&user=%zz"), []byte("user==;"), []byte("."), []byte("Bearer a.bnVsbA.c"), 1)
	f.Fuzz(func(t *testing.T, path, query, cookie, host, auth []byte, n int) {
		before := fmt.Sprintf("%q %q %q %q %q", path, query, cookie, host, auth)
		scratch := make([]byte, 0, max(len(path), len(query), len(host)))
		n = 1 + (n&0x7fffffff)%8
		segment := bytes.Clone(pathSegment(scratch, path, n))
		value := bytes.Clone(queryValue(scratch, query, "user"))
		name := bytes.Clone(hostName(scratch, host))
		for what, key := range map[string][]byte{
			"path": segment, "query": value, "cookie": cookieValue(cookie, "user"), "host": name, "jwt": jwtClaim(auth, "sub"),
		} {
			if key != nil && len(key) == 0 {
				t.Fatalf("%s: an empty key: a request without one must not hash to a shard", what)
			}
		}
		if bytes.IndexByte(segment, '/') >= 0 {
			t.Fatalf("the segment %q has a slash", segment)
		}
		if again := bytes.Clone(hostName(scratch, bytes.ToUpper(host))); isASCII(host) && !bytes.Equal(again, name) {
			t.Fatalf("host %q gives %q, in capitals %q", host, name, again)
		}
		if bytes.IndexByte(path, '%') < 0 && bytes.HasPrefix(path, []byte("/")) {
			escaped := escape(path)
			if again := pathSegment(make([]byte, 0, len(escaped)), escaped, n); !bytes.Equal(again, segment) {
				t.Fatalf("path %q gives %q, escaped %q", path, segment, again)
			}
		}
		if after := fmt.Sprintf("%q %q %q %q %q", path, query, cookie, host, auth); after != before {
			t.Fatalf("the request changed: %s, was %s", after, before)
		}
	})
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
