package keysource_test

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"

	"shardway/keysource"
)

func TestJoinedSourcesHaveACanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"host+path:1":                    "host+path:1",
		"host:01+path:02":                "host:1+path:2",
		"header:X-Tenant+jwt:/a/b":       "header:x-tenant+jwt:/a/b",
		"jwt:org+query:room":             "jwt:org+query:room",
		"path:/a+b/{key:x+host}/…+ip":    "path:/a%2Bb/{key:x+host}/*+ip",
		"header:X+Y":                     "header:x+y", // a name with a plus sign
		"query:a+b+cookie:c+d":           "query:a+b+cookie:c+d",
		"jwt:sub@subprotocol:jwt.":       "jwt:sub@subprotocol:jwt.",
		"jwt:/a~1b/0@cookie:t+query:x@y": "jwt:/a~1b/0@cookie:t+query:x@y",
		"mint:POST":                      "mint:POST",
		"json:/a~1b/c+path:1":            "json:/a~1b/c+path:1",
		"host+form:room":                 "host+form:room",
		"json:/a+b+form:c+d":             "json:/a+b+form:c+d",
	} {
		if got := keysource.CanonicalSources([]string{text}); got[0] != want {
			t.Errorf("%s is %s, want %s", text, got[0], want)
		}
		source, err := keysource.Parse(want)
		if err != nil || source.String() != want {
			t.Errorf("%s is %s, %v", want, source, err)
		}
	}
}

func TestInvalidSourcesAreRejected(t *testing.T) {
	for text, remedy := range map[string]string{
		"host+mint": "such as host+path:1", "mint+host": "such as host+path:1", "none+ip": "such as host+path:1", "host+wrap:cookie:sid": "such as host+path:1", "ws-first+host": "such as host+path:1", "host+ws-json:/a": "such as host+path:1", "json:a+host": "JSON pointer", "form:+host": "form:",
		"host+path": "path:1", "host+header:": "header:X-Shard-Key", strings.Repeat("ip+", 8) + "ip": "join at most 8", "joined": "known sources", "joined:x": "known sources", "subprotocol:x": "known sources",
		"jwt:": "write jwt:sub", "jwt:a b": "write jwt:sub", "jwt:@cookie:a": "write jwt:sub", "jwt:/a~2": "RFC 6901", "jwt:/a~": "RFC 6901", "jwt:/" + strings.Repeat("a", 256): "at most 256 bytes",
		"jwt:sub@": "@query:NAME", "jwt:sub@header:X": "@query:NAME", "jwt:sub@cookie:": "@query:NAME", "jwt:sub@query:a b": "@query:NAME", "jwt:sub@subprotocol:a,b": "@query:NAME", "jwt:a@b": "@query:NAME",
		"path:/rooms": "exactly once", "path:rooms/{key}": "write path:1", "host:0": "write host:1",
	} {
		if source, err := keysource.Parse(text); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s is %v, %v, want %q", text, source, err, remedy)
		}
	}
}

func TestJoinedSourceReadsBodyOfItsParts(t *testing.T) {
	for text, want := range map[string]bool{"host+json:/a": true, "form:a+path:1": true, "host+path:1": false} {
		if c := (keysource.Config{Spec: keysource.Spec{Sources: []string{text}}}); c.UsesBody() != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

func TestJoinedForwardingHeaderDependsOnProxies(t *testing.T) {
	for text, want := range map[string]bool{"host+ip": true, "path:1+header:X-Forwarded-User": true, "host+path:1": false} {
		if c := (keysource.Config{Spec: keysource.Spec{Sources: []string{text}}}); c.UsesProxies() != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

// FuzzJoinedKey verifies that a joined key has one reading: different parts never give the same key.
func FuzzJoinedKey(f *testing.F) {
	f.Add([]byte("a"), []byte("b"))
	f.Add([]byte("a+b"), []byte("%2B%"))
	f.Add([]byte("\x00"), []byte("+"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		key := keysource.AppendPart(append(keysource.AppendPart(nil, first), '+'), second)
		parts := strings.Split(string(key), "+")
		if len(parts) != 2 {
			t.Fatalf("%q and %q are %q", first, second, key)
		}
		for i, part := range [][]byte{first, second} {
			if decoded, err := url.PathUnescape(parts[i]); err != nil || !bytes.Equal([]byte(decoded), part) {
				t.Fatalf("part %q of %q is %q, %v", part, key, decoded, err)
			}
		}
	})
}

// FuzzPointer verifies that the names in a JSON pointer are those of RFC 6901.
func FuzzPointer(f *testing.F) {
	f.Add("/tenant/id")
	f.Add("/a~1b/~01/")
	f.Add("/~")
	f.Fuzz(func(t *testing.T, text string) {
		source, err := keysource.Parse("jwt:" + text)
		if err != nil || !source.HasPointer() {
			return
		}
		names := slices.Collect(keysource.PointerNames(source.Name))
		escape := strings.NewReplacer("~", "~0", "/", "~1")
		var b strings.Builder
		for _, name := range names {
			b.WriteString("/" + escape.Replace(name))
		}
		if b.String() != source.Name {
			t.Fatalf("%q has the names %q", source.Name, names)
		}
	})
}
