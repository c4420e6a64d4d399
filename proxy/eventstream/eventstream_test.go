package eventstream_test

import (
	"bytes"
	"strings"
	"testing"

	"shardway/proxy/eventstream"
)

// seeds returns streams that cover each rule.
func seeds() []string {
	return []string{
		"", "\n", "\r", "\r\n", "\r\r", "\n\r", "\n\n",
		"data: 1\n\ndata: 2\r\n\r\nid: 3\r\rx",
		"id: 1\ndata: a\n\nid: 2\ndata: b\n\n",
		"id: 1\r\n\r\nid:2\r\rid\n\ndata",
		"id: 1\n\nid: 2\ndata: never whole\n",
		"id: 1\n\nid: a\x00b\n\ndata: x\n\n",
		"id: 1\nid: \x01\nid: 2\n\n", "id: \t\n\nid: 2\n\n", "id: 1\x7f\n\n",
		"id: \xff\n\n", "id: é\n\n", "id:  two spaces \n\n", "id:\n\n", "id: 5\n\nid:\n\n",
		"\xef\xbb\xbfid: 1\n\n", "\xef\xbb\xbf", "\xef\xbb", "\xef\xbbx\n\n", "\xef\n\n", "\xef\xbb\xbf\xef\xbb\xbfid: 1\n\n",
		"\xef\xbb\xbf\n", ": comment\nid: 1\n: comment\n\n", ":\n:\r:\r\n", "idx: 1\n\n", "i: 1\n\n", "Id: 1\n\n", " id: 1\n\n",
		"id:" + strings.Repeat("x", 1<<10) + "\n\n", "id:" + strings.Repeat("x", 1<<10+1) + "\n\n",
		"data: 1\n\n\n\n\nid: 7\n\nretry: 10\nevent: e\ndata\n\n",
	}
}

// follow scans a stream in parts of step bytes and compares each state with that of the reference
// reader.
func follow(t *testing.T, p []byte, step int) {
	t.Helper()
	var s eventstream.Scanner
	for at := 0; at < len(p); {
		part := p[at:min(at+step, len(p))]
		whole := s.Next(part)
		for i := len(part); i > whole; i-- {
			if read(p[:at+i], reading{}).between {
				t.Fatalf("%q, of %q: %d bytes are whole, not %d", part, p, whole, i)
			}
		}
		if whole > 0 && !read(p[:at+whole], reading{}).between {
			t.Fatalf("%q, of %q: an event is open behind %d bytes", part, p, whole)
		}
		at += len(part)
		want := read(p[:at], reading{})
		if s.Between() != want.between {
			t.Fatalf("behind %q: between %v, want %v", p[:at], s.Between(), want.between)
		}
		if id, ok := s.ID(); ok != want.goesOn || ok && string(id) != want.id {
			t.Fatalf("behind %q: id %q, %v; want %q, %v", p[:at], id, ok, want.id, want.goesOn)
		}
		until(t, part, p[:at-len(part)])
	}
}

// until compares the result of Until for a part with the reference reader.
func until(t *testing.T, part, before []byte) {
	t.Helper()
	var s eventstream.Scanner
	s.Next(before)
	n, over := s.NextBoundary(part)
	first := -1
	for i := 0; i <= len(part) && first < 0; i++ {
		if read(append(bytes.Clone(before), part[:i]...), reading{}).between {
			first = i
		}
	}
	switch {
	case over != (first >= 0):
		t.Fatalf("%q behind %q: over %v, first end at %d", part, before, over, first)
	case over && !read(append(bytes.Clone(before), part[:n]...), reading{}).between:
		t.Fatalf("%q behind %q is cut in an event, behind %d", part, before, n)
	case over && n > first+1, over && n == first+1 && part[first] != '\n':
		t.Fatalf("%q behind %q goes on to %d, though an event ends at %d", part, before, n, first)
	}
}

// The result for a stream does not depend on how its bytes are split.
func FuzzScannerReadsLikeTheStandard(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(2))
	}
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		p = p[:min(len(p), 2<<10)]
		follow(t, p, 1+int(step%9))
	})
}

// Each seed is split in two at every position.
func TestScannerReadsLikeTheStandard(t *testing.T) {
	all := strings.Join(seeds(), "data: between\n\n")
	for _, s := range append(seeds(), all) {
		p := []byte(s)
		follow(t, p[:min(len(p), 2<<10)], 1)
		want := read(p, reading{})
		for at := range p {
			var s eventstream.Scanner
			s.Next(p[:at])
			s.Next(p[at:])
			if id, ok := s.ID(); s.Between() != want.between || ok != want.goesOn || ok && string(id) != want.id {
				t.Errorf("%q split at %d: between %v, id %q, %v; want %v, %q, %v", p, at, s.Between(), id, ok, want.between, want.id, want.goesOn)
			}
		}
	}
}
