package keysource_test

import (
	"net/netip"
	"strings"
	"testing"

	"shardway/keysource"
)

func TestEquivalentConfigsHaveTheSameCanonicalForm(t *testing.T) {
	nets := func(all ...string) (out []netip.Prefix) {
		for _, s := range all {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	a := keysource.Config{
		Spec:    keysource.Spec{Sources: []string{"header:X-Tenant", "ip"}, Routes: []keysource.Route{{Prefix: "/b", Sources: []string{"path:1"}}, {Prefix: "/%61%20b%25c", Sources: []string{"mint"}}}},
		Missing: keysource.MissingReject, TrustedProxies: nets("10.0.0.0/8", "192.0.2.0/24"),
	}
	b := a
	b.Spec = keysource.Spec{Sources: []string{"header:x-TENANT", "ip"}, Routes: []keysource.Route{{Prefix: "/a%20%62%25c", Sources: []string{"mint"}}, {Prefix: "/%62", Sources: []string{"path:01"}}}}
	b.TrustedProxies = nets("192.0.2.0/24", "10.0.0.0/8")
	first, err := a.Canonical()
	second, err2 := b.Canonical()
	if err != nil || err2 != nil || first != second {
		t.Fatalf("%v %v\n%s\n%s", err, err2, first, second)
	}
	const want = `{"key":["header:x-tenant","ip"],"routes":{"/a%20b%25c":["mint"],"/b":["path:1"]},"on_missing_key":"reject","trusted_proxies":["10.0.0.0/8","192.0.2.0/24"]}`
	if first != want {
		t.Errorf("%s\nwant %s", first, want)
	}
	read, err := keysource.ParseConfig(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := read.Canonical(); err != nil || again != first {
		t.Errorf("%v: %s", err, again)
	}
}

func TestCanonicalFormContainsTrustedProxiesOnlyIfASourceUsesThem(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for source, uses := range map[string]bool{"ip": true, "header:X-Forwarded-User": true, "header:X_Forwarded_For": true, "header:X-Tenant": false, "host": false} {
		text, err := keysource.Config{Spec: keysource.Spec{Sources: []string{source}}, Missing: keysource.MissingReject, TrustedProxies: proxies}.Canonical()
		if err != nil || strings.Contains(text, "10.0.0.0/8") != uses {
			t.Errorf("%s: %v, %s", source, err, text)
		}
	}
}

// The size of the body buffer decides which bodies have a key, so all nodes must agree on it.
func TestCanonicalFormContainsBodyBufferOnlyIfASourceReadsBodies(t *testing.T) {
	for source, reads := range map[string]bool{"json:/id": true, "form:room": true, "header:X-Tenant": false} {
		config := keysource.Config{Spec: keysource.Spec{Routes: []keysource.Route{{Prefix: "/a", Sources: []string{source}}}}, Missing: keysource.MissingReject, BodyBuffer: 4096}
		text, err := config.Canonical()
		if err != nil || strings.Contains(text, `"body_buffer":4096`) != reads {
			t.Errorf("%s: %v, %s", source, err, text)
		}
		read, err := keysource.ParseConfig(text)
		if err != nil || reads && read.BodyBuffer != 4096 {
			t.Errorf("%s: %v, %+v", text, err, read)
		}
	}
	if _, err := keysource.ParseConfig(`{"key":["json:/id"],"on_missing_key":"reject","body_buffer":-1}`); err == nil {
		t.Error("a negative size is accepted")
	}
}

// Nodes that read cookies of different names find different keys, so all nodes must agree on it.
func TestCanonicalFormContainsCookieOnlyIfItIsUsed(t *testing.T) {
	scope := keysource.CookieScope{Name: "a", Path: "/", Domain: "Example.COM"}
	for _, missing := range keysource.Missings() {
		text, err := keysource.Config{Missing: missing, Cookie: scope}.Canonical()
		uses := missing == keysource.MissingCookie
		if err != nil || strings.Contains(text, `"cookie":{"name":"a","domain":"example.com"}`) != uses || !uses && strings.Contains(text, "example") {
			t.Errorf("%s: %v, %s", missing, err, text)
		}
		if read, err := keysource.ParseConfig(text); err != nil || uses && (read.Cookie.Name != "a" || read.Cookie.Domain != "example.com") {
			t.Errorf("%s: %v, %+v", text, err, read)
		}
	}
	for _, cookie := range []string{`{}`, `{"name":"Shardway-Key"}`, `{"path":"/"}`, `{"domain":"Example.com"}`, `{"name":"a b"}`, `{"path":"/\r\n"}`, `{"name":"a","secure":true}`, `{"name":"__Host-a","path":"/x"}`, `{"name":"x"}`} {
		if c, err := keysource.ParseConfig(`{"key":["cookie:x"],"on_missing_key":"cookie","cookie":` + cookie + `}`); err == nil {
			t.Errorf("%s is %+v", cookie, c)
		}
	}
}

func TestInvalidOrTooLargeConfigIsRejected(t *testing.T) {
	c := keysource.Config{Missing: keysource.MissingReject}
	for i := range 1000 {
		c.Routes = append(c.Routes, keysource.Route{Prefix: "/" + strings.Repeat("x", 20+i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26), Sources: []string{"header:X-Tenant"}})
	}
	if _, err := c.Canonical(); err == nil || !strings.Contains(err.Error(), "use fewer or shorter routes") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{
		"", "{}", "x", `{"key":["header:X"],"on_missing_key":"reject"}`, `{"key":["header:x"],"on_missing_key":"later"}`, `{"key":["header:x"],"on_missing_key":"reject","new":1}`,
		`{"key":["nonsense"],"on_missing_key":"reject"}`, `{"key":["header:x"],"on_missing_key":"reject"} `, strings.Repeat("x", keysource.MaxConfig+1),
	} {
		if c, err := keysource.ParseConfig(bad); err == nil {
			t.Errorf("%q is %+v", bad, c)
		}
	}
}

func TestSourceThatIsNotUTF8IsRejected(t *testing.T) {
	for _, text := range []string{"query:t\xff", "jwt:\xc3", "\xff"} {
		if s, err := keysource.Parse(text); err == nil || !strings.Contains(err.Error(), "write names in UTF-8") {
			t.Errorf("%q is %+v, %v", text, s, err)
		}
	}
}

func FuzzCanonicalKeyConfiguration(f *testing.F) {
	f.Add("header:X", "/a", "ip", "reject")
	f.Add("json:/a~1b", "/j", "form:user[id]", "reject")
	f.Add("jwt:\xff", "/%2f", "cookie:\"", "local")
	f.Fuzz(func(t *testing.T, source, prefix, routed, missing string) {
		c := keysource.Config{Spec: keysource.Spec{Sources: []string{source}, Routes: []keysource.Route{{Prefix: prefix, Sources: []string{routed}}}}, Missing: keysource.Missing(missing)}
		text, err := c.Canonical()
		if _, bad := keysource.ParseMissing(missing); err != nil || bad != nil || missing == "" {
			return
		}
		read, err := keysource.ParseConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, err := read.Canonical(); err != nil || again != text {
			t.Fatalf("%s\n%s: %v", text, again, err)
		}
	})
}
