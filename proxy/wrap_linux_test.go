package proxy_test

import (
	"testing"

	"shardway/proxy/shardkey"
)

// An event loop serves requests of sessions, too.
func TestEventLoopServesWrappedSessions(t *testing.T) {
	n := newNode(t, "a", webApp(t, sessionApp), wrapping(t, shardkey.Spec{Sources: []string{"wrap:cookie:sid", "header:X-Shard-Key"}}))
	n.WithoutSweeps()
	c := n.dialToLoop()
	before := n.carried()
	for i := range 3 {
		c.send("GET /?cookie=sid%%3Dnew HTTP/1.1\r\nHost: h\r\nCookie: sid=%s\r\n\r\n", wrap(t, "wrap:cookie:sid", wrapID, "v"))
		res, _ := c.answer("GET")
		if res.Header.Get("Saw-Cookie") != "sid=v" || res.Header.Get("Set-Cookie") != "sid="+wrap(t, "wrap:cookie:sid", wrapID, "new") {
			t.Errorf("request %d: %v", i, res.Header)
		}
	}
	until(t, "the event loop has served the requests", func() bool { return n.carried() >= before+3 })
}
