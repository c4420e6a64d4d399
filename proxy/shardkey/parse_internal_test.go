package shardkey

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"shardway/keysource"
)

// FuzzKeys tests that arbitrary bytes cause no crash, that a key never refers to memory outside the
// request, and that all spellings of a value give the same key.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("x=1&user=a+b%20c&user=d"), []byte("sid=1; sid2=\"2\"; =; sid"), []byte("Example.COM.:8080"), []byte("Bearer e30.eyJzdWIiOiJhIn0.x"))
	f.Add([]byte("%75ser=x"), []byte("user = 1"), []byte("[::1]:80"), []byte("bearer a.eyJzdWIiOjF9.c"))
	f.Add([]byte("&&=&user"), []byte(";;;"), []byte(":"), []byte("Bearer .."))
	f.Add([]byte("user=;x"), []byte("=user"), []byte(""), []byte("Bearer"))
	f.Add([]byte("user=a%+"), []byte("user=a%+"), []byte("h:"), []byte("Bearer a.b.c"))
	f.Add([]byte("user=%&user=%zz;user=a"), []byte("user==;"), []byte("."), []byte("Bearer a.bnVsbA.c"))
	f.Fuzz(func(t *testing.T, query, cookie, host, auth []byte) {
		before := fmt.Sprintf("%q %q %q %q", query, cookie, host, auth)
		scratch := make([]byte, 0, max(len(query), len(host)))
		value, same := queryValue(scratch, query, "user")
		value = bytes.Clone(value)
		sid, one := cookieValue(cookie, "user")
		name := bytes.Clone(hostName(scratch, host))
		for what, key := range map[string][]byte{
			"query": value, "cookie": sid, "host": name, "jwt": claimKey(findClaim(bearerToken(auth), &keysource.Source{Kind: keysource.JWT, Name: "sub"})),
		} {
			if key != nil && len(key) == 0 {
				t.Fatalf("%s: an empty key: a request without one must not hash to a shard", what)
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
		if after := fmt.Sprintf("%q %q %q %q", query, cookie, host, auth); after != before {
			t.Fatalf("the request changed: %s, was %s", after, before)
		}
	})
}

// lastValue parses a query as PHP, Rails and Django do: the last of several values is used. An empty
// value is not a key.
func lastValue(query, sep string) (last string) {
	for pair := range strings.SplitSeq(query, sep) {
		name, value, _ := strings.Cut(pair, "=")
		if unescaped(name) == "user" && value != "" {
			last = unescaped(value)
		}
	}
	return last
}

// unescaped returns s percent-decoded, with a space for +. Invalid escapes are kept.
func unescaped(s string) string {
	var out []byte
	for s = strings.ReplaceAll(s, "+", " "); s != ""; {
		if len(s) > 2 && s[0] == '%' {
			if b, err := hex.DecodeString(s[1:3]); err == nil {
				out, s = append(out, b...), s[3:]
				continue
			}
		}
		out, s = append(out, s[0]), s[1:]
	}
	return string(out)
}

func lastCookie(field string) (last string) {
	for pair := range strings.SplitSeq(field, ";") {
		name, value, _ := strings.Cut(pair, "=")
		if value = strings.Trim(value, " \t"); strings.Trim(name, " \t") == "user" && value != "" {
			last = value
		}
	}
	return last
}

func isASCII(b []byte) bool { return bytes.IndexFunc(b, func(r rune) bool { return r > '~' }) < 0 }
