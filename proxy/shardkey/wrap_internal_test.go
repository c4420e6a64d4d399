package shardkey

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"shardway/keysource"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
	"shardway/proxy/wrapkey"
)

// FuzzWrappedCookies verifies that an app whose parser differs from Shardway's reads the session id of the key:
// each value that a parser finds in a request with a wrapped key is wrapped with this key, and the app reads the
// same value without its suffix. In the input, ~1 and ~3 stand for two values with one key, and ~2 and ~4 for values
// with another key, which an app has named.
func FuzzWrappedCookies(f *testing.F) {
	for _, seed := range []string{
		"sid=~1", `sid="~1"`, "a=b; sid=~1; c=d", "sid=~1; sid=~2", "sid=~1; sid=~3", "sid=v; sid=~1", "sid =~1", "sid= ~1", "x sid=~1", "sid=~1 x=2", ";;sid=~1;", "sid=~1~2",
		`x="; sid=~1`, "SID=~1", "sid=~2", "sid=~2; sid=~4", "sid=~4; sid=~1", `sid="~4"`, "sid=~1\r\nCookie: sid=~2", "sid=~1\r\nCookie: sid=~1", "sid=\"~1", "sid=~1\"", "$Version=1; sid=~1; $Path=/",
	} {
		f.Add(seed)
	}
	keys, err := New(Spec{Sources: []string{"wrap:cookie:sid"}, OnMissingKey: "hash-path"})
	if err != nil {
		f.Fatal(err)
	}
	field := &wrapkey.NewFields([]keysource.Source{{Kind: keysource.Wrap, Wrapped: keysource.Cookie, Name: "sid"}})[0]
	var codec *wrapkey.Codec
	wrapped := func(key, value string) string {
		return string(codec.AppendSuffix([]byte(value), field, []byte(key), []byte(value)))
	}
	createdKey := string(wrapkey.ID{1}.AppendKey(nil))
	texts := map[string]string{"~1": wrapped(createdKey, "v"), "~2": wrapped("acme", "w"), "~3": wrapped(createdKey, "w"), "~4": wrapped("acme", "v")}
	var pairs []string
	for placeholder, text := range texts {
		pairs = append(pairs, placeholder, text)
	}
	fill := strings.NewReplacer(pairs...)
	removeSuffixes := func(line string) string {
		for _, text := range texts {
			line = strings.ReplaceAll(line, text[1:], "")
		}
		return line
	}
	f.Fuzz(func(t *testing.T, template string) {
		if len(template) > 500 {
			return
		}
		in := "GET / HTTP/1.1\r\nHost: h\r\nCookie: " + fill.Replace(template) + "\r\n\r\n"
		conn := h1.NewConn(&script{Reader: strings.NewReader(in)}, h1.Options{Buffers: &h1.Buffers{}})
		e := Extractor{Request: new(h1.Request), Client: new(forwarded.Client), Keys: keys}
		if conn.ReadRequest(e.Request) != nil {
			return
		}
		found, invalid := e.Find(false)
		if invalid != nil {
			return
		}
		before, after := cookieLines(e.Request, nil), cookieLines(e.Request, found.Wrapped.Stripped())
		for i := range before {
			if removeSuffixes(before[i]) != removeSuffixes(after[i]) {
				t.Fatalf("%q: more than suffixes is removed: %q", in, after[i])
			}
		}
		if !found.isWrapped {
			return
		}
		for name, parse := range map[string]func([]string) []string{"net/http": parseGo, "cookie": parseNode} {
			sent, received := parse(before), parse(after)
			if len(sent) != len(received) {
				t.Fatalf("%s: %q has %q, and the app reads %q", name, in, sent, received)
			}
			for i := range sent {
				value, key, ok := codec.Split(field, []byte(sent[i]))
				if !ok || string(key) != string(found.Key) || string(value) != received[i] {
					t.Fatalf("%s: with the key %s, the app reads %q from %q, as %q", name, found.Key, sent[i], in, received[i])
				}
			}
		}
	})
}

// cookieLines returns the Cookie lines of a request after replacements.
func cookieLines(req *h1.Request, replaced []h1.FieldValue) (lines []string) {
	for i := req.Find("Cookie", 0); i >= 0; i = req.Find("Cookie", i+1) {
		_, value := req.Field(i)
		at := slices.IndexFunc(replaced, func(r h1.FieldValue) bool { return r.Line == i })
		if at >= 0 {
			value = replaced[at].Value
		}
		lines = append(lines, string(value))
	}
	return lines
}

// parseGo returns the non-empty values of the cookie sid as net/http reads them.
func parseGo(lines []string) (values []string) {
	req := http.Request{Header: http.Header{"Cookie": lines}}
	for _, cookie := range req.CookiesNamed("sid") {
		if cookie.Value != "" {
			values = append(values, cookie.Value)
		}
	}
	return values
}

// parseNode returns the non-empty values of the cookie sid as the npm package cookie reads them.
func parseNode(lines []string) (values []string) {
	for pair := range strings.SplitSeq(strings.Join(lines, "; "), ";") {
		name, value, ok := strings.Cut(pair, "=")
		value = strings.TrimSpace(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if ok && strings.TrimSpace(name) == "sid" && value != "" {
			values = append(values, value)
		}
	}
	return values
}
