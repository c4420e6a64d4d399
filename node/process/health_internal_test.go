package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/config"
	"shardway/internal/headerrules"
)

// healthCheck returns a check with the defaults.
func healthCheck() config.HealthCheck {
	return config.HealthCheck{Path: "/health", Method: http.MethodGet, Status: []config.StatusRange{{First: 200, Last: 399}}}
}

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
		if err := appChecker(dial, addr, config.HealthCheck{}, &appInstance{})(t.Context()); err != nil {
			t.Errorf("at %q: %v, want it well", addr, err)
		}
	}
	if dials < 3 {
		t.Errorf("%d dials: an app is asked beside them that is not known to be on this machine", dials)
	}
	_ = ln.Close()
	for _, addr := range []string{ln.Addr().String(), ""} {
		if err := appChecker(dial, addr, config.HealthCheck{}, &appInstance{})(t.Context()); !errors.Is(err, gone) {
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
			err := appChecker(dial, "app:80", healthCheck(), &named)(t.Context())
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
	err := appChecker(func(context.Context) (net.Conn, error) { return near, nil }, "app:80", healthCheck(), &appInstance{})(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the time is over", err)
	}
}

// respond returns a dial function whose connections read one request into sent and send response.
func respond(sent *[]byte, response io.Reader) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			var raw bytes.Buffer
			if _, err := http.ReadRequest(bufio.NewReaderSize(io.TeeReader(far, &raw), 1<<16)); err == nil {
				*sent = raw.Bytes()
				_, _ = io.Copy(far, response)
			}
		}()
		return near, nil
	}
}

func TestHealthCheckSendsConfiguredRequest(t *testing.T) {
	fields := []headerrules.Field{{Name: "X-Forwarded-Proto", Value: "https"}, {Name: "Accept", Value: "a"}, {Name: "Accept", Value: "b"}, {Name: "User-Agent", Value: "probe/1"}}
	for name, c := range map[string]struct {
		addr  string
		check config.HealthCheck
		want  string
	}{
		"default":          {"app:80", config.HealthCheck{Method: "GET"}, "GET /h?x HTTP/1.1\r\nHost: app:80\r\nUser-Agent: shardway-health\r\nConnection: close\r\n\r\n"},
		"socket":           {"", config.HealthCheck{Method: "GET"}, "GET /h?x HTTP/1.1\r\nHost: localhost\r\nUser-Agent: shardway-health\r\nConnection: close\r\n\r\n"},
		"method and host":  {"app:80", config.HealthCheck{Method: "POST", Host: "a.example"}, "POST /h?x HTTP/1.1\r\nHost: a.example\r\nUser-Agent: shardway-health\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
		"fields":           {"app:80", config.HealthCheck{Method: "HEAD", Headers: fields}, "HEAD /h?x HTTP/1.1\r\nHost: app:80\r\nUser-Agent: probe/1\r\nConnection: close\r\nAccept: a\r\nAccept: b\r\nX-Forwarded-Proto: https\r\n\r\n"},
		"method of an app": {"app:80", config.HealthCheck{Method: "PURGE", Host: "[::1]:1"}, "PURGE /h?x HTTP/1.1\r\nHost: [::1]:1\r\nUser-Agent: shardway-health\r\nConnection: close\r\n\r\n"},
	} {
		c.check.Path, c.check.Status = "/h?x", healthCheck().Status
		var sent []byte
		err := appChecker(respond(&sent, strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")), c.addr, c.check, &appInstance{})(t.Context())
		if err != nil || string(sent) != c.want {
			t.Errorf("%s: %v, sent %q, want %q", name, err, sent, c.want)
		}
	}
}

// The app is healthy only if the status is accepted and the body contains the text.
func TestHealthCheckComparesStatusAndBody(t *testing.T) {
	pad := func(n int) string { return strings.Repeat("x", n) }
	const head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
	for name, c := range map[string]struct {
		response, body string
		status         []config.StatusRange
		err            string
	}{
		"status":                       {response: "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", status: []config.StatusRange{{First: 200, Last: 200}, {First: 404, Last: 404}}},
		"other status":                 {response: "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", status: []config.StatusRange{{First: 200, Last: 200}, {First: 400, Last: 499}}, err: "the app answered /health with 302 Found; expected 200,400-499"},
		"body":                         {response: "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"state\":\"ok\"}", body: `"ok"`},
		"other body":                   {response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnotok", body: "is ok", err: `the app answered /health without "is ok" in the body`},
		"case":                         {response: head + "OK", body: "ok", err: `without "ok"`},
		"no body":                      {response: "HTTP/1.1 204 No\r\n\r\n", body: "ok", err: `without "ok"`},
		"status before body":           {response: "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nok", body: "ok", err: "with 500 No; expected 200-399"},
		"chunks":                       {response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", body: "ok"},
		"in two reads":                 {response: head + pad(4095) + "ok", body: "ok"},
		"at the end of the limit":      {response: head + pad(maxCheckedBody-2) + "ok" + pad(10), body: "ok"},
		"beyond the limit":             {response: head + pad(maxCheckedBody-1) + "ok", body: "ok", err: `without "ok"`},
		"in the rest of a broken body": {response: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", body: "ok"},
		"not in a broken body":         {response: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nno", body: "ok", err: "with an incomplete body: unexpected EOF"},
	} {
		check := healthCheck()
		if check.Body = c.body; c.status != nil {
			check.Status = c.status
		}
		var sent []byte
		err := appChecker(respond(&sent, strings.NewReader(c.response)), "app:80", check, &appInstance{})(t.Context())
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, "tick "), nil }

// The check does not wait for the end of a stream that contains the text.
func TestHealthCheckEndsWhenTextIsFound(t *testing.T) {
	check := healthCheck()
	check.Body = "ck ti"
	var sent []byte
	stream := io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n\r\n"), endless{})
	if err := appChecker(respond(&sent, stream), "app:80", check, &appInstance{})(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each app instance gets the configured request, with its own address unless a host is configured.
func TestHealthCheckOfEachInstanceHasItsHost(t *testing.T) {
	for _, host := range []string{"", "app.example"} {
		conf := &config.Config{Health: "/health", HealthMethod: "OPTIONS", HealthHost: host, HealthHeaders: []string{"X-A: b"}, HealthStatus: []string{"2xx"}, HealthBody: "fine"}
		for range 2 {
			var mu sync.Mutex
			var got string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				got = r.Method + " " + r.Host + " " + r.Header.Get("X-A")
				_, _ = io.WriteString(w, "fine")
			}))
			t.Cleanup(server.Close)
			created, err := newInstance(conf, server.URL)
			if err != nil {
				t.Fatal(err)
			}
			err = created.watch.Check(t.Context())
			want := "OPTIONS " + strings.TrimPrefix(server.URL, "http://") + " b"
			if host != "" {
				want = "OPTIONS app.example b"
			}
			mu.Lock()
			if err != nil || got != want {
				t.Errorf("%v, got %q, want %q", err, got, want)
			}
			mu.Unlock()
		}
	}
}
