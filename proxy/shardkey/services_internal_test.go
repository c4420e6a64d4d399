package shardkey

import (
	"fmt"
	"strings"
	"testing"

	"shardway/internal/problem"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
)

const twoServices = `{"services":{"chat":{"routes":["*.chat.example","example.com/chat"],"shards":8,"key":["host+path:1"],"on_missing_key":"reject"},` +
	`"default":{"routes":["/"],"shards":4,"key":["none"],"on_missing_key":"reject"}}}`

// findIn returns the result of Find for a request. err is not nil if the request is no HTTP request.
func findIn(keys *Keys, host, target string) (found Found, service string, invalid *problem.Problem, err error) {
	in := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, host)
	conn := h1.NewConn(&script{Reader: strings.NewReader(in)}, h1.Options{Buffers: &h1.Buffers{}})
	e := Extractor{Request: new(h1.Request), Client: new(forwarded.Client), Keys: keys}
	if err := conn.ReadRequest(e.Request); err != nil {
		return Found{}, "", nil, err
	}
	found, invalid = e.Find(true)
	return found, e.Service(), invalid, nil
}

func TestFindReturnsService(t *testing.T) {
	keys, err := Parse(twoServices)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ host, target, service, key string }{
		{"A.Chat.Example:80", "/x", "chat", "a.chat.example+x"}, {"example.com", "/chat", "chat", "example.com+chat"}, {"example.com", "/x", "default", ""}, {"[::1]", "*", "", ""},
	} {
		found, service, invalid, err := findIn(keys, tc.host, tc.target)
		if err == nil && (invalid != nil || service != tc.service || string(found.Key) != tc.key || found.Keyless != (tc.key == "")) {
			t.Errorf("%s%s: %+v, %v", tc.host, tc.target, found, invalid)
		}
	}
	if scope := keys.CookieScope("chat"); scope.Name != "Shardway-Key" || !keys.HasServices() {
		t.Errorf("scope %+v", scope)
	}
}

// FuzzHostOfService verifies that a request belongs to the service chat only by its hosts and its path.
func FuzzHostOfService(f *testing.F) {
	keys, err := Parse(twoServices)
	if err != nil {
		f.Fatal(err)
	}
	for _, host := range []string{"a.chat.example", "example.com:80", "A.chat.example.", "[::1]:80", "a..chat.example", "chat.example"} {
		f.Add(host, "/chat/x")
		f.Add(host, "/x/../chat;y")
	}
	f.Fuzz(func(t *testing.T, host, target string) {
		_, service, invalid, err := findIn(keys, host, target)
		if err != nil || invalid != nil {
			return
		}
		name := strings.ToLower(strings.TrimSuffix(strings.Split(host, ":")[0], "."))
		isByHost := strings.HasSuffix(name, ".chat.example")
		isByPath := name == "example.com" && (target == "/chat" || strings.HasPrefix(target, "/chat/") || strings.HasPrefix(target, "/chat?"))
		isEscaped := strings.ContainsAny(target, "%") || !strings.HasPrefix(target, "/")
		if want := isByHost || isByPath; !isEscaped && want != (service == "chat") {
			t.Errorf("%q %q belongs to %q", host, target, service)
		}
	})
}
