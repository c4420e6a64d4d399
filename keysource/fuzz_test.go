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

// FuzzPath: a segment is found in any bytes without a crash, never in memory beyond
// the path, and every reader of the path finds the same one.
func FuzzPath(f *testing.F) {
	f.Add([]byte("/a/b%2Fc/../d/./e"), 2)
	f.Add([]byte("/%2e%2e/%2E/"), 1)
	f.Add([]byte("*"), 9)
	f.Add([]byte("/..;/.%2e/%"), 1)
	f.Fuzz(func(t *testing.T, target []byte, n int) {
		before := string(target)
		n = 1 + (n&0x7fffffff)%8
		read := keysource.ReadPath(make([]byte, 0, len(target)), target)
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
			escaped := escape(target)
			other := keysource.ReadPath(make([]byte, 0, len(escaped)), escaped)
			if again, alsoSure := other.Segment(n); !bytes.Equal(again, segment) || sure && !alsoSure {
				t.Fatalf("path %q gives %q %v, escaped %q %v", target, segment, sure, again, alsoSure)
			}
		}
		if string(target) != before {
			t.Fatalf("the path changed: %q, was %q", target, before)
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

// decoded is s percent-decoded; what is no escape stays.
func decoded(s string) string {
	head, tail, found := strings.Cut(s, "%")
	if !found {
		return s
	}
	if len(tail) >= 2 {
		if b, err := hex.DecodeString(tail[:2]); err == nil {
			return head + string(b) + decoded(tail[2:])
		}
	}
	return head + "%" + decoded(tail)
}

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
