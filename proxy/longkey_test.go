package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A key of 60 KiB that must be escaped is forwarded. Once, its owner served it, and any other node
// rejected it with 431.
func TestLongKeysAreForwarded(t *testing.T) {
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, len(r.Header.Get("Shardway-Key")))
	})
	gateway, owner := pair(t, app)
	const size = 60 << 10
	for _, n := range []*node{owner, gateway} {
		c := n.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", strings.Repeat("\xe9", size))
		if res, body := c.answer("GET"); body != strconv.Itoa(3*size) {
			t.Errorf("%s: %s, and the app saw a key of %s bytes", n.id, res.Status, body)
		}
	}
}
