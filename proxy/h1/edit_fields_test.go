package h1_test

import (
	"bytes"
	"strings"
	"testing"

	"shardway/proxy/h1"
)

// An edited response is the same as if it had been received in the new form.
func TestEditedResponseEqualsReceivedOne(t *testing.T) {
	for _, test := range []struct{ lines, remove, add string }{
		{"A: 1|B: 2|Content-Length: 0|", "", "C: 3|"},
		{"A: 1|B: 2|Content-Length: 0|", "b", ""},
		{"A: 1|a: 2|Content-Length: 0|A:  3 |", "a", "a: 4|A: 5|"},
		{"Content-Type: text/plain|Content-Length: 0|", "content-type", "Content-Type: text/event-stream|"},
		{"Connection: A|A: 1|Content-Length: 0|B: 2|", "b", "C: 3|"},
		{"Transfer-Encoding: chunked|Cache-Control: public|", "cache-control", "Cache-Control: private|"},
		{"", "", "A: 1|"},
	} {
		crlf := func(text string) string { return strings.ReplaceAll(text, "|", "\r\n") }
		var edited, received h1.Response
		if err := edited.ParseHeader([]byte("HTTP/1.1 200 OK\r\n"+crlf(test.lines)+"\r\n"), []byte("GET"), 100); err != nil {
			t.Fatal(err)
		}
		var kept strings.Builder
		for line := range strings.SplitAfterSeq(crlf(test.lines), "\r\n") {
			if name, _, _ := strings.Cut(line, ":"); !strings.EqualFold(name, test.remove) {
				kept.WriteString(line)
			}
		}
		if err := received.ParseHeader([]byte("HTTP/1.1 200 OK\r\n"+kept.String()+crlf(test.add)+"\r\n"), []byte("GET"), 100); err != nil {
			t.Fatal(err)
		}
		edited.EditFields(func(name []byte) bool { return bytes.EqualFold(name, []byte(test.remove)) }, []byte(crlf(test.add)))
		if !bytes.Equal(edited.Raw(), received.Raw()) || edited.NumFields() != received.NumFields() {
			t.Fatalf("%+v:\n%q\n%q", test, edited.Raw(), received.Raw())
		}
		for i := range edited.NumFields() {
			name, value := edited.Field(i)
			wantName, wantValue := received.Field(i)
			if !bytes.Equal(name, wantName) || !bytes.Equal(value, wantValue) || edited.KnownField(i) != received.KnownField(i) || edited.IsConnectionOption(i) != received.IsConnectionOption(i) {
				t.Errorf("%+v: line %d is %s: %s", test, i, name, value)
			}
		}
		for _, field := range []h1.Field{h1.FieldContentType, h1.FieldContentLength, h1.FieldTransferEncoding, h1.FieldOther} {
			if edited.Has(field) != received.Has(field) {
				t.Errorf("%+v: known field %d: %v", test, field, edited.Has(field))
			}
		}
	}
}
