package h1_test

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
)

// asFasthttp compares an accepted header section with fasthttp's parser, because apps that use
// fasthttp, including in-process apps, get its result. Cases that only fasthttp rejects are harmless:
// some with version 1.0, and a forbidden name in a Trailer line of a message without chunks.
func asFasthttp(t *testing.T, r *h1.Request) {
	t.Helper()
	var h fasthttp.RequestHeader
	if err := h.Read(bufio.NewReaderSize(bytes.NewReader(r.Raw()), len(r.Raw())+16)); err != nil {
		if r.Minor() == 1 && !r.Has(h1.FieldTrailer) {
			t.Fatalf("fasthttp refuses %q: %v", r.Raw(), err)
		}
		return
	}
	ours, theirs := max(r.ContentLength(), 0), int64(h.ContentLength())
	if r.Body.Kind() == h1.Chunked {
		ours = -1
	}
	if theirs == -2 { // no Content-Length
		theirs = 0
	}
	first := bytes.TrimPrefix(r.Raw(), []byte("\r\n"))
	first, _, _ = bytes.Cut(first, []byte("\r\n"))
	got := fmt.Sprintf("%s %s HTTP/1.%d", h.Method(), h.RequestURI(), r.Minor())
	if got != string(first) || theirs != ours {
		t.Fatalf("fasthttp reads %q with a body of %d, we %q with %d", got, theirs, first, ours)
	}
}

// answerAsFasthttp is asFasthttp for a response.
func answerAsFasthttp(t *testing.T, r *h1.Response) {
	t.Helper()
	var h fasthttp.ResponseHeader
	if err := h.Read(bufio.NewReaderSize(bytes.NewReader(r.Raw()), len(r.Raw())+16)); err != nil {
		if !r.Has(h1.FieldTrailer) {
			t.Fatalf("fasthttp refuses %q: %v", r.Raw(), err)
		}
		return
	}
	if h.StatusCode() != r.Status() {
		t.Fatalf("fasthttp reads %d, we %d", h.StatusCode(), r.Status())
	}
}
