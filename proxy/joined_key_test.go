package proxy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/proxy/shardkey"
)

// Each row is a request for one of the sources, with the key that the app receives. An empty key means
// that the source gives none, and "ambiguous" that the request is refused.
func TestKeysOfPatternsTokensAndJoinedSources(t *testing.T) {
	const ambiguous = "ambiguous"
	bearer := func(claims string) string { return "Authorization: Bearer " + jwt(claims) + "\r\n" }
	nested := `{"tenant":{"id":"acme","tags":["x",7],"a/b":true},"sub":"alice","n":null}`
	for _, tc := range []struct {
		source, target, lines, key string
	}{
		{"path:/api/v4/projects/{key%}/*", "/api/v4/projects/group%2Fapp/issues?x=/y", "", "group/app"},
		{"path:/api/v4/projects/{key%}/*", "/api/v4/projects/group/app", "", "group"},
		{"path:/api/v4/projects/{key%}/*", "/api/v4/projects/group%2F..%2Fapp", "", ambiguous},
		{"path:/api/v4/projects/{key%}/*", "/api/v4/projects/group%5Capp", "", ambiguous},
		{"path:/api/v4/projects/{key%}/*", "/API/v4/projects/group", "", ambiguous},
		{"path:/api/v4/projects/{key%}/*", "/api/v4/users", "", ""},
		{"path:/{key:[^/]+}.git/*", "/app.git/info/refs?service=git-upload-pack", "", "app"},
		{"path:/{key:[^/]+}.git/*", "/app.git%2finfo", "", ambiguous},
		{"path:/{key*}.git/*", "/group/app.git/info/refs", "", "group/app"},
		{"path:/{key*}.git/*", "/group/app.git/x.git", "", ambiguous},
		{"path:/rooms/{key}", "/rooms/a%25%0d%0a", "", "a%25%0D%0A"},

		{"host+path:1", "/rooms", "", "example.com+rooms"},
		{"host:1+path:2", "/rooms/a+b%25", "", "example+a%252Bb%2525"},
		{"host+path:1", "/", "", ""},
		{"host+path:1", "/a//../b", "", ambiguous},
		{"header:X-Org+query:room", "/?room=tea", "X-Org: acme\r\n", "acme+tea"},
		{"header:X-Org+query:room", "/?room=tea", "", ""},
		{"header:X-Org+query:room", "/", "X-Org: acme\r\n", ""},
		{"header:X-Org+query:room", "/?room=tea&room=pea", "X-Org: acme\r\n", ambiguous},
		{"header:X-Org+query:room", "/?room=tea", "X-Org: acme\r\nX_Org: other\r\n", ambiguous},
		{"header:X-Org+query:room", "/?room=c", "X-Org: a+b\r\n", "a%252Bb+c"}, // not the key of a and b+c
		{"header:X-Org+query:room", "/?room=b%2Bc", "X-Org: a\r\n", "a+b%252Bc"},
		{"header:X-Org+query:room", "/?room=c", "X-Org: a%2Bb\r\n", "a%25252Bb+c"},
		{"jwt:/tenant/id+path:1", "/rooms", bearer(nested), "acme+rooms"},
		{"header:X-Org+header:X-Org", "/", "X-Org: " + strings.Repeat("a", 9<<10) + "\r\n", ambiguous},

		{"jwt:/tenant/id", "/", bearer(nested), "acme"},
		{"jwt:/tenant/tags/1", "/", bearer(nested), "7"},
		{"jwt:/tenant/tags/01", "/", bearer(nested), ""},
		{"jwt:/tenant/tags/-1", "/", bearer(nested), ""},
		{"jwt:/tenant/tags/2", "/", bearer(nested), ""},
		{"jwt:/tenant/a~1b", "/", bearer(nested), "true"},
		{"jwt:/tenant", "/", bearer(nested), ""},
		{"jwt:/sub/x", "/", bearer(nested), ""},
		{"jwt:/n/x", "/", bearer(nested), ""},
		{"jwt:sub", "/", bearer(` {"sub":"alice"}`), "alice"},
		{"jwt:/sub", "/", bearer(`[{"sub":"alice"}]`), ""},
		{"jwt:sub@cookie:token", "/", "Cookie: token=" + jwt(nested) + "\r\n" + bearer(`{"sub":"bob"}`), "alice"},
		{"jwt:sub@cookie:token", "/", "Cookie: token=\"" + jwt(nested) + "\"\r\n", "alice"},
		{"jwt:sub@cookie:token", "/", "Cookie: token=%65" + jwt(nested)[1:] + "\r\n", ambiguous},
		{"jwt:sub@cookie:token", "/", "Cookie: token=100%25\r\n", ""},
		{"jwt:sub@cookie:token", "/", "Cookie: token=" + jwt(nested) + "; token=" + jwt(`{"sub":"bob"}`) + "\r\n", ambiguous},
		{"jwt:sub@cookie:token", "/", "Cookie: token =" + jwt(nested) + "\r\n", ambiguous},
		{"jwt:sub@cookie:token", "/", bearer(nested), ""},
		{"jwt:sub@query:access_token", "/?access_token=" + jwt(nested), "", "alice"},
		{"jwt:sub@query:access_token", "/?access%5Ftoken=%65" + jwt(nested)[1:], "", "alice"},
		{"jwt:sub@query:access_token", "/?access_token=" + jwt(nested) + "&access_token=" + jwt(`{"sub":"bob"}`), "", ambiguous},
		{"jwt:sub@query:access_token", "/?x=1;access_token=" + jwt(nested), "", ambiguous},
		{"jwt:sub@subprotocol:jwt.", "/", "Sec-WebSocket-Protocol: graphql-ws, jwt." + jwt(nested) + "\r\n", "alice"},
		{"jwt:sub@subprotocol:jwt.", "/", "Sec-WebSocket-Protocol: graphql-ws\r\nSec-WebSocket-Protocol: jwt." + jwt(nested) + "\r\n", "alice"},
		{"jwt:sub@subprotocol:jwt.", "/", "Sec-WebSocket-Protocol: jwt." + jwt(nested) + ",\tjwt." + jwt(`{"sub":"bob"}`) + "\r\n", ambiguous},
		{"jwt:sub@subprotocol:jwt.", "/", "Sec-WebSocket-Protocol: jwt." + jwt(nested) + "\r\nSec_WebSocket_Protocol: jwt." + jwt(`{"sub":"bob"}`) + "\r\n", ambiguous},
		{"jwt:sub@subprotocol:jwt.", "/", "Connection: Sec-WebSocket-Protocol\r\nSec-WebSocket-Protocol: jwt." + jwt(nested) + "\r\n", ambiguous},
		{"jwt:sub@subprotocol:jwt.", "/", "Sec-WebSocket-Protocol: jwt.\r\n", ""},
	} {
		n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, shardkey.Spec{Sources: []string{tc.source}}) })
		c := n.dial()
		c.send("GET %s HTTP/1.1\r\nHost: Example.COM.:8080\r\n%s\r\n", tc.target, tc.lines)
		res, body := c.answer("GET")
		switch tc.key {
		case "":
			wantStatus(t, res, body, 400, "no-key")
		case ambiguous:
			if res.StatusCode != 400 || res.Header.Get("Shardway-Error") != "bad-request" {
				t.Errorf("%s of %s %q: %d %s, want 400 bad-request", tc.source, tc.target, tc.lines, res.StatusCode, body)
			}
		default:
			if got := res.Header.Get("Saw-Shardway-Key"); got != tc.key {
				t.Errorf("%s of %s %q = %q, want %q: %d %s", tc.source, tc.target, tc.lines, got, tc.key, res.StatusCode, body)
			}
		}
	}
}

// A request whose earlier source is ambiguous is refused, although a later source has a key.
func TestAmbiguousPartsAreNotSkipped(t *testing.T) {
	spec := shardkey.Spec{Sources: []string{"path:/projects/{key}/*", "host+cookie:sid", "jwt:sub@query:t", "header:X-Tenant"}}
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.Keys = keysOf(t, spec) })
	c := n.dial()
	for _, tt := range []struct{ target, lines string }{
		{"/Projects/1", ""},
		{"/projects//1", ""},
		{"/projects/1%2F2", ""},
		{"/x", "Cookie: sid=a; sid=b\r\n"},
		{"/x", "Cookie: sid =a\r\n"},
		{"/x?t=a.b.c&t=d", ""},
	} {
		c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Tenant: acme\r\n%s\r\n", tt.target, tt.lines)
		res, body := c.answer("GET")
		wantStatus(t, res, body, 400, "bad-request")
	}
	c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Tenant: acme\r\n\r\n")
	if res, _ := c.answer("GET"); res.Header.Get("Saw-Shardway-Key") != "acme" {
		t.Errorf("key %q", res.Header.Get("Saw-Shardway-Key"))
	}
}

// The log contains one line for each source whose claim can never be a key.
func TestStructuredClaimIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.Log = zerolog.New(&log)
		o.Keys = keysOf(t, shardkey.Spec{Sources: []string{"jwt:aud", "jwt:/realm/x", "header:X-Tenant"}})
	})
	c := n.dial()
	for _, claims := range []string{`{"sub":"a"}`, `{"aud":["a"],"realm":{"x":{}}}`, `{"aud":["a"]}`} {
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Tenant: acme\r\nAuthorization: Bearer %s\r\n\r\n", jwt(claims))
		if res, body := c.answer("GET"); res.StatusCode != 200 {
			t.Errorf("%s: %d %s", claims, res.StatusCode, body)
		}
	}
	for _, line := range []string{`"source":"jwt:aud","claim_type":"array","message":"claim cannot be a key"`, `"source":"jwt:/realm/x","claim_type":"object"`} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("%s, want one line with %s", log.String(), line)
		}
	}
}
