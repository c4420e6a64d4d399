package shardkey

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"shardway/config"
	"shardway/keysource"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
)

// FuzzConfiguredKeysAreRead tests that the configuration and the proxy accept the same sources and
// prefixes, and that a request with a key in a source has that key. Once, each had its own parser: one
// rejected query:a b and the other used it, and one accepted /a;b and the other rejected it when the
// node started.
func FuzzConfiguredKeysAreRead(f *testing.F) {
	for _, seed := range []string{
		"query:a b", "query:a%+b", "query:a;b&c=d", "header:X-Tenant", "header:x_y", "header:Shardway-Key", "header:Connection", "header:é", "cookie:a b", "cookie:sid", "cookie:a;b",
		"path:2", "path:02", "path:65", "path:+3", "json:/user/id", "json:id", "json:", "json:/a~", "json:/a b", "form:user", "form:", "form:a b", "form:a[b]", "jwt:sub", "jwt:a:b", "jwt:\xff", "host", "host:x", "host:1", "host:65", "path:/rooms/{key}/*", "path:/x-{key}.git/x", "host+path:1", "jwt:/a/b", "jwt:sub@cookie:t", "header:X+Y", "none", "none:x", "mint", "mint:POST", "ip", "", "heder:X",
		"/a", "/a/", "/a;b", "/a//b", "/a/../b", "/a b", "/a%20b", "/a#b", "a", "/%2e",
	} {
		f.Add(seed, "alice")
		f.Add(seed, "a b;ü/%+")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		run := func(c *config.Config) error {
			_, err := New(Spec{Sources: c.Keys, Routes: c.KeyRoutes(), OnMissingKey: string(c.OnMissingKey)})
			return err
		}
		agree(t, text, func(c *config.Config) { c.OnMissingKey = keysource.Missing(text) }, func(c *config.Config) error {
			if text == "" {
				return errors.New("")
			}
			return run(c)
		})
		agree(t, text, func(c *config.Config) { c.Routes = []config.Route{{Prefix: text, Keys: []string{"host"}}} }, run)
		agree(t, text, func(c *config.Config) { c.Routes = []config.Route{{Prefix: "/", Keys: []string{text}}} }, run)
		if !agree(t, text, func(c *config.Config) { c.Keys = []string{text} }, run) {
			return
		}
		s, err := keysource.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := keysource.Parse(s.String()); err != nil || again.String() != s.String() {
			t.Fatalf("%q is %v, which is %v, %v", text, s, again, err)
		}
		readBack(t, s, key)
	})
}

// agree reports whether config accepts the setting. It fails the test if the proxy decides
// differently.
func agree(t *testing.T, text string, set func(*config.Config), run func(*config.Config) error) bool {
	t.Helper()
	c := config.Default()
	set(&c)
	checked, ran := c.Validate(), run(&c)
	if (checked == nil) != (ran == nil) {
		t.Fatalf("%q: config says %v, the proxy %v", text, checked, ran)
	}
	for _, err := range []error{checked, ran} {
		if err != nil && text != "" && !strings.Contains(err.Error(), text) && !strings.Contains(err.Error(), strings.Trim(fmt.Sprintf("%q", text), `"`)) {
			t.Fatalf("%v does not name %q", err, text)
		}
	}
	return checked == nil
}

// readBack sends a request with the key in the source and checks the extracted key.
func readBack(t *testing.T, s keysource.Source, key string) {
	t.Helper()
	target, lines, ok := carry(s, key)
	if !ok {
		return
	}
	in := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", target, lines)
	h := h1.NewConn(&script{Reader: strings.NewReader(in)}, h1.Options{Buffers: &h1.Buffers{}})
	f := Extractor{Request: new(h1.Request), Client: new(forwarded.Client)}
	if err := h.ReadRequest(f.Request); err != nil {
		if s.Kind != keysource.Header { // some header names have a special meaning
			t.Fatalf("%q: %v", in, err)
		}
		return
	}
	if i := f.Request.Find(s.Name, 0); s.Kind == keysource.Header && i >= 0 && (f.removedFields().Has(f.Request.KnownField(i)) || f.Request.IsConnectionOption(i)) {
		return
	}
	if got, bad := f.keyFromSource(&s); bad != "" || string(got) != key {
		t.Fatalf("%v of %q is %q %s, want %q", s, in, got, bad, key)
	}
}

// carry returns the request target and the header lines of a request with a key. It returns false if
// the source cannot contain this key.
func carry(s keysource.Source, key string) (target, lines string, ok bool) {
	text := strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 && strings.Trim(key, " \t") == key
	target = "/"
	switch s.Kind {
	case keysource.Header:
		return target, s.Name + ": " + key + "\r\n", key != "" && text
	case keysource.Cookie:
		return target, "Cookie: a=b; " + s.Name + "=" + key + "\r\n", key != "" && text && !strings.Contains(key, ";") && s.Name != "a"
	case keysource.Query:
		return "/?" + url.QueryEscape(s.Name) + "=" + url.QueryEscape(key), "", key != ""
	case keysource.Path:
		if s.Pattern != nil {
			return carryInPath(s.Pattern, key)
		}
		var escaped strings.Builder
		for _, b := range []byte(key) {
			escaped.WriteString("%" + hex.EncodeToString([]byte{b}))
		}
		target = strings.Repeat("/x", s.Segment-1) + "/" + escaped.String()
		return target, "", key != "" && key != "." && key != ".." && !strings.ContainsAny(key, `/\;`) && len(key) < 1000
	case keysource.JWT:
		if s.HasPointer() || s.Token.Kind != keysource.InAuthorization {
			return "", "", false
		}
		claims, err := json.Marshal(map[string]string{s.Name: key})
		line := "Authorization: Bearer e30." + base64.RawURLEncoding.EncodeToString(claims) + ".x\r\n"
		return target, line, err == nil && key != "" && utf8.ValidString(key) && utf8.ValidString(s.Name)
	case keysource.Host, keysource.IP, keysource.Mint, keysource.Wrap, keysource.None, keysource.JSON, keysource.Form, keysource.Joined,
		keysource.WSJSON, keysource.WSFirst, keysource.WSProtocol:
	}
	return "", "", false
}

// carryInPath returns a request target with a key for a pattern. It returns false if the pattern cannot
// match this key.
func carryInPath(pattern *keysource.Pattern, key string) (target, lines string, ok bool) {
	before, placeholder, _ := strings.Cut(strings.TrimSuffix(pattern.String(), "/*"), "{")
	name, after, _ := strings.Cut(placeholder, "}")
	if name != "key" || strings.Contains(after, "{") || key == "" || len(key) > 1000 || strings.ContainsAny(key, `/\;`) {
		return "", "", false
	}
	var escaped strings.Builder
	for _, b := range []byte(key) {
		escaped.WriteString("%" + hex.EncodeToString([]byte{b}))
	}
	target = before + escaped.String() + after
	isDotSegment := (key == "." || key == "..") && strings.HasSuffix(before, "/") && (after == "" || after[0] == '/')
	return target, "", !isDotSegment
}

// script is a connection from which a given text is read, and then nothing more.
type script struct {
	net.Conn
	io.Reader
}

func (s *script) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// A pair that fasthttp's Args and other parsers decode differently is ambiguous.
func TestIncompleteEscapesAreAmbiguous(t *testing.T) {
	for query, want := range map[string]string{
		"user=a%+": "", "user=%+": "", "x=%+&user=a%": "a%", "user=%+b": "% b", "user=a%2": "a%2", "user=a%2+": "a%2 ", "user=%2B%+": "",
		"user=;x": "", "user=x;": "", ";user=x": "",
	} {
		value, same := queryValue(make([]byte, 0, len(query)), []byte(query), "user")
		if same != (want != "") || same && !bytes.Equal(value, []byte(want)) {
			t.Errorf("%q: %q %v, want %q", query, value, same, want)
		}
	}
}

// A label is that of the host name without its port, so an IP address has none.
func TestLabelsOfHosts(t *testing.T) {
	for host, want := range map[string][3]string{
		"ACME.Example.com:80": {"acme", "example", "com"}, "acme": {"acme"}, "acme.com.": {"acme", "com"}, "acme..com": {"acme", "", "com"}, ".acme.com": {"", "acme", "com"},
		"0xcafe.example": {"0xcafe", "example"}, "1.example": {"1", "example"}, "a.0xg": {"a", "0xg"},
		"192.0.2.1:80": {}, "a.0x7F": {}, "a.0X7f": {}, "2130706433": {}, "a.0x": {}, "[2001:db8::1.2]:80": {}, "": {}, ".": {}, ":80": {},
	} {
		name := hostName(make([]byte, 0, len(host)), []byte(host))
		for i, label := range want {
			if got := hostLabel(name, i+1); string(got) != label || got != nil && len(got) == 0 {
				t.Errorf("label %d of %q is %q, want %q", i+1, host, got, label)
			}
		}
	}
}
