package shardkey

import (
	"strings"
	"testing"

	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
)

// BenchmarkFind measures the search for the key of a request, without and with services.
func BenchmarkFind(b *testing.B) {
	for _, bm := range []struct{ name, config, request string }{
		{"header", `{"key":["header:x-shard-key"],"on_missing_key":"reject"}`, "GET /a HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept: */*\r\nX-Shard-Key: alice\r\n\r\n"},
		{"route", `{"key":["ip"],"routes":{"/rooms":["path:2"]},"on_missing_key":"reject"}`, "GET /rooms/alice HTTP/1.1\r\nHost: example.com\r\n\r\n"},
		{"services/by-host", twoServices, "GET /alice HTTP/1.1\r\nHost: a.chat.example\r\n\r\n"},
		{"services/by-path", twoServices, "GET /chat/alice HTTP/1.1\r\nHost: example.com\r\n\r\n"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			keys, err := Parse(bm.config)
			if err != nil {
				b.Fatal(err)
			}
			conn := h1.NewConn(&script{Reader: strings.NewReader(bm.request)}, h1.Options{Buffers: &h1.Buffers{}})
			e := Extractor{Request: new(h1.Request), Client: new(forwarded.Client), Keys: keys}
			if err := conn.ReadRequest(e.Request); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if found, invalid := e.Find(false); invalid != nil || len(found.Key) == 0 {
					b.Fatal(invalid)
				}
			}
		})
	}
}
