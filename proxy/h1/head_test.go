package h1_test

import (
	"testing"

	"shardway/proxy/h1"
)

// A connection that has become a tunnel keeps the headers of its request, because its session may need
// another upstream connection. It keeps nothing of the response.
func TestTunnelsReleaseHeaderMemory(t *testing.T) {
	var r h1.Request
	if err := over("GET /a HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\n\r\n").ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	before := r.MemorySize()
	r.Compact()
	if n := r.MemorySize(); n > 200 || n >= before {
		t.Errorf("a head of 36 bytes takes %d bytes, and took %d", n, before)
	}
	if host, b := string(r.Host()), string(r.Value("b")); r.NumFields() != 3 || host != "h" || b != "2" {
		t.Errorf("then it has %d fields, host %q, B %q", r.NumFields(), host, b)
	}
	value := r.Value("B")
	r.Clear()
	if n := r.MemorySize(); n != 0 || r.NumFields() != 0 || string(value) != "2" {
		t.Errorf("then it takes %d bytes with %d fields, and what it said is %q", n, r.NumFields(), value)
	}
}
