package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Without a path, an app is healthy if it accepts a connection, by rawio and by dial. The error
// for an unhealthy app comes from dial.
func TestHealthCheckWithoutPathOnlyConnects(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	dials := 0
	dial := func(ctx context.Context) (net.Conn, error) {
		dials++
		c, err := new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return nil, gone
		}
		return c, nil
	}
	for _, addr := range []string{ln.Addr().String(), "", "localhost:1", "192.0.2.1:80"} {
		if err := appChecker(dial, addr, "", &appInstance{})(t.Context()); err != nil {
			t.Errorf("at %q: %v, want it well", addr, err)
		}
	}
	if dials < 3 {
		t.Errorf("%d dials: an app is asked beside them that is not known to be on this machine", dials)
	}
	_ = ln.Close()
	for _, addr := range []string{ln.Addr().String(), ""} {
		if err := appChecker(dial, addr, "", &appInstance{})(t.Context()); !errors.Is(err, gone) {
			t.Errorf("at %q, where nobody listens: %v, want what the dial says", addr, err)
		}
	}
}

// The data directory stores the name as JSON, which contains only UTF-8. A name that was read back
// differently would count as a restart of the app.
func TestAppInstanceSurvivesTheDataDirectoryUnchanged(t *testing.T) {
	var a appInstance
	seen := map[string]string{}
	for _, name := range []string{"plain", "é", "\xe9", "\xe8", "a\xffb", "a\ufffdb"} {
		a.set(&name)
		got := a.get()
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var kept string
		if err := json.Unmarshal(b, &kept); err != nil || kept != got || got == "" {
			t.Errorf("%q is %q, and kept it is %q, %v", name, got, kept, err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", other, name, got)
		}
		seen[got] = name
	}
	for _, name := range []string{"", strings.Repeat("x", 257), strings.Repeat("\xff", 65)} {
		if a.set(&name); a.get() != "" {
			t.Errorf("%q is %q, want none", name, a.get())
		}
	}
}

// A response that the proxy corrects for clients does not make the app unhealthy.
func TestHealthCheckReadsResponsesAsTheProxyDoes(t *testing.T) {
	for name, c := range map[string]struct {
		response, instance string
		healthy            bool
	}{
		"usual":                       {"HTTP/1.1 200 OK\r\nShardway-App-Instance: i\r\nContent-Length: 2\r\n\r\nok", "i", true},
		"field with a bad name":       {"HTTP/1.1 200 OK\r\nX(y): z\r\nShardway-App-Instance: i\r\nContent-Length: 0\r\n\r\n", "i", true},
		"behind an interim response":  {"HTTP/1.1 103 A\r\nShardway-App-Instance: no\r\n\r\nHTTP/1.1 204 OK\r\nShardway-App-Instance: i\r\n\r\n", "i", true},
		"redirect":                    {"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "", true},
		"error":                       {"HTTP/1.1 503 No\r\nShardway-App-Instance: i\r\nContent-Length: 0\r\n\r\n", "i", false},
		"two readings":                {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "", false},
		"no response":                 {"", "", false},
		"interim responses, no other": {strings.Repeat("HTTP/1.1 103 A\r\n\r\n", 100), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dial := func(context.Context) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					defer func() { _ = far.Close() }()
					if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
						_, _ = io.WriteString(far, c.response)
					}
				}()
				return near, nil
			}
			var named appInstance
			err := appChecker(dial, "app:80", "/health", &named)(t.Context())
			if (err == nil) != c.healthy || named.get() != c.instance {
				t.Errorf("%v, instance %q; want healthy %v, %q", err, named.get(), c.healthy, c.instance)
			}
		})
	}
}

// A check ends with its context even if the app does not respond.
func TestHealthCheckEndsWithItsContext(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := appChecker(func(context.Context) (net.Conn, error) { return near, nil }, "app:80", "/health", &appInstance{})(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the time is over", err)
	}
}
