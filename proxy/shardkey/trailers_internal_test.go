package shardkey

import (
	"io"
	"strings"
	"testing"

	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
)

// The app receives no trailer with the name of a header that contains a key on any route, because some servers add
// trailers to the headers.
func TestTrailersWithNamesOfKeysAreDropped(t *testing.T) {
	keys, err := New(Spec{OnMissingKey: "hash-path", Sources: []string{"header:X-Tenant", "host+header:X-Room"}, Routes: []Route{{Prefix: "/mcp", Sources: []string{"wrap:header:Session-Id"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for trailer, isKept := range map[string]bool{
		"X-Sum": true, "X-Tenant": false, "x_tenant": false, "X-ROOM": false, "Session.Id": false, "X-Tenants": true, "Tenant": true,
	} {
		in := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n" + trailer + ": v\r\n\r\n"
		conn := h1.NewConn(&script{Reader: strings.NewReader(in)}, h1.Options{Buffers: &h1.Buffers{}})
		e := Extractor{Request: new(h1.Request), Client: new(forwarded.Client), Keys: keys}
		if err := conn.ReadRequest(e.Request); err != nil {
			t.Fatal(err)
		}
		if _, invalid := e.Find(false); invalid != nil {
			t.Fatal(invalid)
		}
		if body, err := io.ReadAll(&e.Request.Body); err != nil || string(body) != "hi" {
			t.Fatalf("%q, %v", body, err)
		}
		if got := strings.Contains(string(e.Request.Body.Trailers()), trailer); got != isKept {
			t.Errorf("%s is kept: %v", trailer, got)
		}
	}
}
