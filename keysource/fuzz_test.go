package keysource_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"shardway/keysource"
)

// FuzzPath verifies that ParsePath accepts any bytes without modifying them, and that every app
// finds the same segment if Segment reports it as unambiguous.
func FuzzPath(f *testing.F) {
	f.Add([]byte("/a/b%2Fc/../d/./e"), 2)
	f.Add([]byte("/%2e%2e/%2E/"), 1)
	f.Add([]byte("*"), 9)
	f.Add([]byte("/..;/.%2e/%"), 1)
	f.Fuzz(func(t *testing.T, target []byte, n int) {
		before := string(target)
		n = 1 + (n&0x7fffffff)%8
		read := keysource.ParsePath(make([]byte, 0, len(target)), target)
		segment, sure := read.Segment(n)
		if segment != nil && len(segment) == 0 {
			t.Fatal("an empty key: a request without one must not hash to a shard")
		}
		if sure && bytes.HasPrefix(target, []byte("/")) {
			for _, reader := range pathReaders {
				if got := segmentOf(reader(string(target)), n); got != string(segment) {
					t.Fatalf("segment %d of %q is %q, and %q for another reader", n, target, segment, got)
				}
			}
		}
		if bytes.IndexByte(target, '%') < 0 && bytes.HasPrefix(target, []byte("/")) {
			escaped := escapeAll(target)
			other := keysource.ParsePath(make([]byte, 0, len(escaped)), escaped)
			if again, alsoSure := other.Segment(n); !bytes.Equal(again, segment) || sure && !alsoSure {
				t.Fatalf("path %q gives %q %v, escaped %q %v", target, segment, sure, again, alsoSure)
			}
		}
		if string(target) != before {
			t.Fatalf("the path changed: %q, was %q", target, before)
		}
	})
}

// pathReaders are the ways in which apps split a path into decoded segments.
var pathReaders = []func(string) []string{
	// Decode, then split.
	func(p string) []string { return strings.Split(percentDecode(p), "/") },
	// Split, then decode.
	func(p string) []string { return mapSegments(strings.Split(p, "/"), percentDecode) },
	// Resolve dot segments and merge slashes, before or after decoding.
	func(p string) []string { return strings.Split(path.Clean(percentDecode(p)), "/") },
	func(p string) []string { return mapSegments(strings.Split(path.Clean(p), "/"), percentDecode) },
	// Servlets: remove parameters first.
	func(p string) []string { return mapSegments(strings.Split(p, "/"), stripParameters) },
	// IIS: a backslash is a slash.
	func(p string) []string {
		return strings.Split(path.Clean(strings.ReplaceAll(percentDecode(p), `\`, "/")), "/")
	},
	// Ignore empty segments.
	func(p string) []string { return slices.DeleteFunc(strings.Split(percentDecode(p), "/")[1:], isEmpty) },
}

// segmentOf returns segment n of a path, counted from 1. It ignores the empty segment before the
// first slash.
func segmentOf(segments []string, n int) string {
	if len(segments) > 0 && segments[0] == "" {
		segments = segments[1:]
	}
	if n > len(segments) {
		return ""
	}
	return segments[n-1]
}

// percentDecode decodes s. Invalid escapes remain unchanged.
func percentDecode(s string) string {
	head, tail, found := strings.Cut(s, "%")
	if !found {
		return s
	}
	if len(tail) >= 2 {
		if b, err := hex.DecodeString(tail[:2]); err == nil {
			return head + string(b) + percentDecode(tail[2:])
		}
	}
	return head + "%" + percentDecode(tail)
}

func isEmpty(s string) bool { return s == "" }

func stripParameters(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return percentDecode(s)
}

func mapSegments(list []string, f func(string) string) []string {
	for i := range list {
		list[i] = f(list[i])
	}
	return list
}

// escapeAll percent-encodes every byte except slashes.
func escapeAll(path []byte) []byte {
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
