package shardkey

import (
	"strings"
	"testing"

	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
)

// A joined source needs the body only if all parts outside of the body have a key, and no part is ambiguous.
func TestJoinedSourceReadsBodyLast(t *testing.T) {
	keys, err := New(Spec{OnMissingKey: "hash-path", Sources: []string{"json:/a+header:X-Org+json:/b"}})
	if err != nil {
		t.Fatal(err)
	}
	const jsonType = "Content-Type: application/json\r\n"
	for _, tc := range []struct {
		lines, body string
		needsBody   bool
		key         string // empty means that the request is refused
	}{
		{"X-Org: acme\r\n" + jsonType, `{"a":"x+y","b":2}`, true, "x%2By+acme+2"},
		{"X-Org: acme\r\n" + jsonType, `{"a":1}`, true, "/"},
		{"X-Org: acme\r\n" + jsonType, `{"a":1,"a":2,"b":3}`, true, ""},
		{jsonType, `{"a":1,"b":2}`, false, "/"},
		{"X-Org: acme\r\nContent-Type: text/plain\r\n", `{"a":1,"b":2}`, false, "/"},
		{"X-Org: acme\r\nX_Org: other\r\n" + jsonType, `{"a":1,"b":2}`, false, ""},
	} {
		in := "POST / HTTP/1.1\r\nHost: h\r\n" + tc.lines + "Content-Length: 9\r\n\r\n"
		conn := h1.NewConn(&script{Reader: strings.NewReader(in)}, h1.Options{Buffers: &h1.Buffers{}})
		e := Extractor{Request: new(h1.Request), Client: new(forwarded.Client), Keys: keys}
		if err := conn.ReadRequest(e.Request); err != nil {
			t.Fatal(err)
		}
		found, invalid := e.Find(false)
		if found.NeedsBody != tc.needsBody {
			t.Errorf("%q needs the body: %v", tc.lines, found.NeedsBody)
		}
		if found.NeedsBody {
			found, invalid = e.FindInBody(false, &Body{Data: []byte(tc.body), IsComplete: true})
		}
		if (invalid != nil) != (tc.key == "") || string(found.Key) != tc.key {
			t.Errorf("%q %s: key %q, %v, want %q", tc.lines, tc.body, found.Key, invalid, tc.key)
		}
	}
}
