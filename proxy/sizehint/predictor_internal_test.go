package sizehint

import (
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"strings"
	"testing"

	"shardway/proxy/h1"
)

// asking returns a request with this request line.
func asking(t *testing.T, line string) *h1.Request {
	t.Helper()
	r := new(h1.Request)
	h := h1.NewConn(&scriptConn{Reader: strings.NewReader(line + " HTTP/1.1\r\nHost: h\r\n\r\n")}, h1.Options{})
	if err := h.ReadRequest(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The prediction for a path uses the size of its last response, whatever other paths do.
func TestResponseSizePredictionUsesLastSize(t *testing.T) {
	s := &Predictor{seed: maphash.MakeSeed()}
	small, large := asking(t, "GET /small?a"), asking(t, "GET /large?b")
	for s.slot(s.Key(small)) == s.slot(s.Key(large)) {
		s.seed = maphash.MakeSeed()
	}
	want := func(what string, r *h1.Request, is bool) {
		t.Helper()
		if got := s.ExpectsLarge(r); got != is {
			t.Errorf("%s: %s %s is taken for large: %v, want %v", what, r.Method(), r.Target(), got, is)
		}
	}
	// The other paths do not occupy the entries of the two tested paths.
	others := func(n int, are bool) {
		t.Helper()
		for i := 0; n > 0; i++ {
			r := asking(t, fmt.Sprintf("GET /%v/%d", are, i))
			if place := s.slot(s.Key(r)); place == s.slot(s.Key(small)) || place == s.slot(s.Key(large)) {
				continue
			}
			s.Record(s.Key(r), are)
			n--
		}
	}
	want("at first", large, false)
	s.Record(s.Key(small), false)
	others(50, true)
	s.Record(s.Key(large), true)
	want("beside large ones", small, false)
	want("beside large ones", asking(t, "GET /small?other"), false)
	want("beside large ones", large, true)
	want("beside large ones", asking(t, "GET /unknown"), true)
	want("beside large ones", asking(t, "HEAD /small"), true)
	others(200, false)
	want("beside small ones", asking(t, "GET /unknown"), false)
	want("beside small ones", large, true)
	s.Record(s.Key(large), false)
	s.Record(s.Key(small), true)
	want("once it was small", large, false)
	want("once it was large", small, true)
}

// scriptConn is a connection from which a given text is read.
type scriptConn struct {
	net.Conn
	io.Reader
}

func (s *scriptConn) Read(p []byte) (int, error) { return s.Reader.Read(p) }
