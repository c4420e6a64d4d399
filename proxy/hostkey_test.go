package proxy_test

import (
	"testing"

	"shardway/proxy"
	"shardway/proxy/shardkey"
)

// The Host that the app gets comes from an absolute-form target if there is one, so the key comes from
// it as well.
func TestKeyFromHostIsHostOfApp(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"header:Host"}}) })
	c := n.dial()
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a.com:80\r\n\r\n":                "a.com:80",
		"GET http://a.com:80/ HTTP/1.1\r\nHost: a.com\r\n\r\n":    "a.com:80",
		"GET http://a.com/ HTTP/1.1\r\nHost: a.com:80\r\n\r\n":    "a.com",
		"GET http://a.com:80/ HTTP/1.1\r\nHost: a.com:80\r\n\r\n": "a.com:80",
	} {
		c.send("%s", request)
		if res, body := c.answer("GET"); res.StatusCode != 200 || res.Header.Get("Saw-Shardway-Key") != want {
			t.Errorf("%q: %d %s, key %q, want %q", request, res.StatusCode, body, res.Header.Get("Saw-Shardway-Key"), want)
		}
	}
}
