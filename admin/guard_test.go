package admin_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/auth"
	"shardway/admin/client"
	"shardway/internal/problem"
)

const (
	readToken  = "read-0123456789abcdefghij"
	writeToken = "write-0123456789abcdefghij"
)

// record collects log lines.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

// lines returns the log lines with this message.
func (r *record) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []map[string]any
	for line := range bytes.Lines(r.b.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m["message"] == message {
			out = append(out, m)
		}
	}
	return out
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

func tokens(t *testing.T, text string) auth.Tokens {
	t.Helper()
	all, err := auth.ParseTokens([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// guarded returns a server that requires a token, and its log.
func guarded(t *testing.T, f *fake) (http.Handler, *record) {
	t.Helper()
	log := &record{}
	s := admin.New(admin.Options{API: apitest.SetOf(f), Metrics: prometheus.NewRegistry(), Log: zerolog.New(log), Events: ring(), Access: auth.Access{
		Read: tokens(t, "scraper "+readToken), Write: tokens(t, "alice "+writeToken),
	}})
	return s.Handler(), log
}

// everyPath contains all paths of an admin port.
var everyPath = []string{
	"GET /", "GET /livez", "GET /readyz", "GET /status", "GET /metrics", "GET /v1/nodes", "GET /v1/shards", "GET /v1/endpoints",
	"GET /v1/map", "GET /v1/locate?key=a", "POST /v1/remove?node=n3", "POST /v1/step-down", "POST /v1/rotate-secret", "POST /v1/settings?dead_after=5s",
	"GET /v1/policy", "POST /v1/drain?node=n3", "POST /v1/cordon?node=n3", "POST /v1/uncordon?node=n3", "POST /v1/pause?for=1m", "POST /v1/resume",
	"POST /v1/app-restarted?node=n3", "POST /v1/mark-failed?node=n3", "POST /v1/approve?node=n3", "POST /v1/refuse?node=n3&reason=a", "GET /v1/joins", "POST /v1/set-role?role=app", "POST /v1/clear-role", "POST /v1/rebalance?reason=a", "POST /v1/weight?node=n3&weight=2", "POST /v1/pin?shard=1&node=n3", "POST /v1/unpin?shard=1", "POST /v1/quarantine?shard=1&hash=0123456789abcdef", "POST /v1/lift?shard=1&hash=0123456789abcdef", "GET /v1/shards/1", "GET /v1/hot", "GET /v1/websockets", "POST /v1/websockets?move_test=true&all=true", "GET /v1/running", "GET /v1/checkup",
	"GET /debug/pprof/", "GET /debug/pprof/cmdline", "GET /debug/pprof/heap", "GET /nothing", "OPTIONS /status", "GET /v1/backup", "GET /v1/events?wait=0",
}

func TestNothingIsAnsweredWithoutAToken(t *testing.T) {
	for name, headers := range map[string][]string{
		"no token":      nil,
		"another token": {"Authorization", "Bearer " + strings.Repeat("x", 30)},
		"a prefix":      {"Authorization", "Bearer " + writeToken[:len(writeToken)-1]},
		"as Basic":      {"Authorization", "Basic " + writeToken},
		"bare":          {"Authorization", writeToken},
		"as a cookie":   {"Cookie", "token=" + writeToken},
		"own header":    {"X-Token", writeToken},
		"empty":         {"Authorization", "Bearer "},
	} {
		f := newFake()
		for _, line := range everyPath {
			h, _ := guarded(t, f) // a new server, because failures are counted
			method, target, _ := strings.Cut(line, " ")
			res := fetchJSON(t, h, method, target, "", headers...)
			if p := problemOf(t, res); res.Code != 401 || p.Code != problem.Unauthorized || res.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %s = %d %+v, want 401", name, line, res.Code, p)
			}
		}
		if did := f.actions(); len(did) > 0 {
			t.Errorf("%s: did %+v", name, did)
		}
	}
}

// A token in the URL would be stored in browser histories and logs. It is not accepted there, whether
// valid or not.
func TestTokenInTheWrongPlaceDoesNotCount(t *testing.T) {
	for _, name := range []string{"token", "access_token", "Token", "api_key", "key"} {
		h, log := guarded(t, newFake())
		res := fetchJSON(t, h, "GET", "/status?"+name+"="+writeToken, "", "Authorization", "Bearer "+writeToken)
		if res.Code != 401 || !strings.Contains(body(res), "only in the header") {
			t.Errorf("?%s= gives %d %s, want 401", name, res.Code, body(res))
		}
		if strings.Contains(log.String(), writeToken) || strings.Contains(body(res), writeToken) {
			t.Errorf("?%s=: the token is repeated", name)
		}
	}
	h, _ := guarded(t, newFake())
	if res := fetchJSON(t, h, "GET", "/v1/locate?key=alice", "", "Authorization", "Bearer "+readToken); res.Code != 200 {
		t.Errorf("a key to be located = %d, want 200: it is none of ours", res.Code)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/status", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["Authorization"] = []string{"Bearer " + readToken, "Bearer " + writeToken}
	if res := serveOne(h, r); res.Code != 401 {
		t.Errorf("two tokens = %d, want 401", res.Code)
	}
}

func TestReadersDoNotWrite(t *testing.T) {
	reads := map[string]int{"/nothing": 404, "/": 302, "/v1/backup": 200}
	for _, line := range everyPath {
		method, target, _ := strings.Cut(line, " ")
		f := newFake()
		h, _ := guarded(t, f)
		res := fetchJSON(t, h, method, target, "", "Authorization", "Bearer "+readToken)
		want := 200
		if other, ok := reads[target]; ok {
			want = other
		}
		if method != "GET" || strings.HasPrefix(target, "/debug/") {
			want = 403
		}
		if res.Code != want && target != "/v1/backup" {
			t.Errorf("reader: %s = %d %s, want %d", line, res.Code, body(res), want)
		}
		if len(f.actions()) > 0 {
			t.Errorf("reader: %s did %+v", line, f.actions())
		}
		h, _ = guarded(t, f)
		if res := fetchJSON(t, h, method, target, "", "Authorization", "bearer "+writeToken); res.Code == 401 || res.Code == 403 {
			t.Errorf("writer: %s = %d", line, res.Code)
		}
	}
}

func TestChangesAreLoggedWithCallerAndAction(t *testing.T) {
	f := newFake()
	h, log := guarded(t, f)
	fetchJSON(t, h, "POST", "/v1/remove", `{"node":"n3","force":true}`, "Content-Type", "application/json", "Authorization", "Bearer "+writeToken)
	fetchJSON(t, h, "POST", "/v1/remove", "", "Authorization", "Bearer "+writeToken)
	fetchJSON(t, h, "DELETE", "/status", "", "Authorization", "Bearer "+writeToken)
	fetchJSON(t, h, "GET", "/status", "", "Authorization", "Bearer "+writeToken)
	f.panics = true
	func() {
		defer func() { _ = recover() }()
		fetchJSON(t, h, "POST", "/debug/pprof/symbol", "0x1", "Authorization", "Bearer "+writeToken)
	}()
	var got []string
	for _, l := range log.lines(t, "change requested") {
		if l["by"] != "token alice" || l["from"] != "192.0.2.1:1234" {
			t.Errorf("by %v from %v", l["by"], l["from"])
		}
		got = append(got, fmt.Sprint(l["what"], " ", l["status"]))
	}
	want := []string{"remove n3 by force 200", "POST /v1/remove 400", "DELETE /status 405", "POST /debug/pprof/symbol 200"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if did := f.actions(); len(did) != 1 || did[0].By != "token alice from 192.0.2.1:1234" {
		t.Errorf("did %+v", did)
	}
}

func TestRejectionsAreLimitedWithoutLockingOutValidTokens(t *testing.T) {
	h, log := guarded(t, newFake())
	codes := map[int]int{}
	for range 50 {
		res := fetchJSON(t, h, "GET", "/status", "", "Authorization", "Bearer wrong")
		codes[res.Code]++
		if res.Code == 429 && res.Header().Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
	}
	if codes[401] != 10 || codes[429] != 40 {
		t.Errorf("answers %v, want 10 × 401 and then 429", codes)
	}
	if n := len(log.lines(t, "admin request refused")); n != 10 {
		t.Errorf("%d lines, want 10", n)
	}
	if res := fetchJSON(t, h, "GET", "/status", "", "Authorization", "Bearer "+readToken); res.Code != 200 {
		t.Errorf("the right token from the same address = %d, want 200", res.Code)
	}
}

// Without tokens on loopback, a browser could be used by a page of any site to call the port. Such
// requests are rejected.
func TestCrossSiteRequestsAreRejected(t *testing.T) {
	for name, tt := range map[string]struct {
		method, target string
		headers        []string
		want           int
	}{
		"by address":          {"GET", "/status", []string{"Host", "127.0.0.1:8081"}, 200},
		"by address, v6":      {"GET", "/status", []string{"Host", "[::1]:8081"}, 200},
		"v6 without port":     {"GET", "/status", []string{"Host", "[::1]"}, 200},
		"by localhost":        {"GET", "/status", []string{"Host", "LOCALHOST:8081"}, 200},
		"by a name it has":    {"GET", "/status", []string{"Host", "node-1.example:8081"}, 200},
		"rebinding":           {"GET", "/status", []string{"Host", "evil.example:8081"}, 403},
		"rebinding, a change": {"POST", "/v1/step-down", []string{"Host", "evil.example", "Sec-Fetch-Site", "same-origin", "Origin", "http://evil.example"}, 403},
		"a balancer's probe":  {"GET", "/livez", []string{"Host", "node-7.internal:8081"}, 200},
		"like localhost":      {"GET", "/status", []string{"Host", "localhost.evil.example"}, 403},
		"like an address":     {"GET", "/status", []string{"Host", "127.0.0.1.evil.example"}, 403},
		"an old browser's form": {
			"POST", "/v1/step-down", []string{"Origin", "http://evil.example", "Content-Type", "application/x-www-form-urlencoded"}, 403,
		},
		"a form":                      {"POST", "/v1/step-down", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a form of the next port":     {"POST", "/v1/step-down", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"a page without origin":       {"POST", "/v1/step-down", []string{"Origin", "null"}, 403},
		"the page itself":             {"POST", "/v1/step-down", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		"a command":                   {"POST", "/v1/step-down", nil, 200},
		"a link":                      {"GET", "/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		"an image":                    {"GET", "/debug/pprof/goroutine", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		"a link to a profile":         {"GET", "/debug/pprof/goroutine", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		"a frame":                     {"GET", "/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		"a script that fetches":       {"GET", "/v1/map", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, 403},
		"a preflight":                 {"OPTIONS", "/v1/step-down", []string{"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example", "Access-Control-Request-Method", "POST"}, 403},
		"the address typed by hand":   {"GET", "/status", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 200},
		"no name at all, as HTTP/1.0": {"GET", "/status", []string{"Host", ""}, 200},
	} {
		f := newFake()
		h := admin.New(admin.Options{API: apitest.SetOf(f), Log: zerolog.Nop(), Access: auth.Access{Hosts: []string{"Node-1.example"}}}).Handler()
		res := fetchJSON(t, h, tt.method, tt.target, "", tt.headers...)
		if res.Code != tt.want {
			t.Errorf("%s: %d %s, want %d", name, res.Code, body(res), tt.want)
		}
		if did := len(f.actions()) > 0; did && tt.want != 200 {
			t.Errorf("%s: it was done", name)
		}
		for _, header := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Methods"} {
			if v := res.Header().Get(header); v != "" {
				t.Errorf("%s: %s = %q", name, header, v)
			}
		}
	}
}

// Every response has the security headers, including errors and unknown paths.
func TestEveryAnswerIsSecured(t *testing.T) {
	want := map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Server": "shardway-admin",
	}
	for _, headers := range [][]string{nil, {"Authorization", "Bearer " + readToken}, {"Authorization", "Bearer " + writeToken}} {
		for _, line := range everyPath {
			h, _ := guarded(t, newFake())
			method, target, _ := strings.Cut(line, " ")
			res := fetchJSON(t, h, method, target, "", headers...)
			for name, v := range want {
				if got := res.Header().Get(name); got != v {
					t.Errorf("%s = %d: %s = %q, want %q", line, res.Code, name, got, v)
				}
			}
			if csp := res.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
				t.Errorf("%s: Content-Security-Policy = %q", line, csp)
			}
			if cc := res.Header().Get("Cache-Control"); cc != "no-store" && cc != "no-cache" {
				t.Errorf("%s: Cache-Control = %q", line, cc)
			}
		}
	}
}

func TestAccessChangesWhileItRuns(t *testing.T) {
	s := admin.New(admin.Options{API: apitest.SetOf(newFake()), Log: zerolog.Nop(), Access: auth.Access{Read: tokens(t, readToken)}})
	next := "next-0123456789abcdefghij"
	s.SetAccess(auth.Access{Read: tokens(t, next)})
	for token, want := range map[string]int{readToken: 401, next: 200} {
		if res := fetchJSON(t, s.Handler(), "GET", "/status", "", "Authorization", "Bearer "+token); res.Code != want {
			t.Errorf("%s = %d, want %d", token, res.Code, want)
		}
	}
}

func TestParseTokensNamesTheLineAndNeverRepeatsIt(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "contains no token",
		"# a\n\n":                     "contains no token",
		"hunter2hunter2":              "line 1: the token has 14 characters",
		"a b " + readToken:            "line 1: write TOKEN, or NAME TOKEN",
		readToken + "\nä" + readToken: "line 2",
		strings.Repeat("x", 600):      "at most 512",
	} {
		_, err := auth.ParseTokens([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("ParseTokens(%.20q) = %v, want %q", text, err, want)
		}
	}
	if all := tokens(t, "# c\r\n\r\nbob "+readToken+"\r\n"+writeToken); len(all) != 2 {
		t.Errorf("%d tokens, want 2", len(all))
	}
}

func TestCertificatesLetIn(t *testing.T) {
	server, readers, writers, stranger := newCA(t), newCA(t), newCA(t), newCA(t)
	f := newFake()
	log := &record{}
	s := admin.New(admin.Options{API: apitest.SetOf(f), Log: zerolog.New(log), Access: auth.Access{
		Read: tokens(t, readToken), ReadCAs: readers.pool(), WriteCAs: writers.pool(),
	}})
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{server.issue(t, "127.0.0.1", x509.ExtKeyUsageServerAuth)}}
	ln := tls.NewListener(listen(t), config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	between := readers.between(t)
	chained := between.issue(t, "frank", x509.ExtKeyUsageClientAuth)
	chained.Certificate = append(chained.Certificate, between.cert.Raw)
	for name, tt := range map[string]struct {
		show         client.Credentials
		look, remove int
	}{
		"by one between": {certificate(server, chained), 200, 403},
		"reader":         {certificate(server, readers.issue(t, "carol", x509.ExtKeyUsageClientAuth)), 200, 403},
		"writer":         {certificate(server, writers.issue(t, "dave", x509.ExtKeyUsageClientAuth)), 200, 200},
		"stranger":       {certificate(server, stranger.issue(t, "eve", x509.ExtKeyUsageClientAuth)), 401, 401},
		"a server's":     {certificate(server, writers.issue(t, "app", x509.ExtKeyUsageServerAuth)), 401, 401},
		"nothing":        {certificate(server), 401, 401},
		"token over TLS": {client.Credentials{Token: readToken, TLS: certificate(server).TLS}, 200, 403},
	} {
		c, err := client.NewWithCredentials(ln.Addr().String(), tt.show)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Status(t.Context())
		if got := statusOf(err); got != tt.look {
			t.Errorf("%s: looking gives %d (%v), want %d", name, got, err, tt.look)
		}
		_, err = c.Do(t.Context(), api.Action{Verb: api.StepDown})
		if got := statusOf(err); got != tt.remove {
			t.Errorf("%s: changing gives %d (%v), want %d", name, got, err, tt.remove)
		}
		c.Close()
	}
	if did := f.actions(); len(did) != 1 || !strings.HasPrefix(did[0].By, "certificate CN=dave from 127.0.0.1:") {
		t.Errorf("did %+v, want one by dave", did)
	}
	// A client that does not trust the port's certificate closes the connection and reports the
	// reason.
	c, err := client.NewWithCredentials(ln.Addr().String(), certificate(stranger))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "--tls-ca") {
		t.Errorf("with another authority: %v, want a word about --tls-ca", err)
	}
}

func TestTokenGoesOverTheNetworkOnlyOverTLSOrAloud(t *testing.T) {
	heard := make(chan string, 8)
	ln := listen(t)
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 512)
			n, _ := c.Read(b)
			heard <- string(b[:n])
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	// 0.0.0.0 does not look like a loopback address, but connects to one.
	for addr, clear := range map[string]bool{"0.0.0.0:" + port: false, "http://0.0.0.0:" + port: true, "127.0.0.1:" + port: true} {
		c, err := client.NewWithCredentials(addr, client.Credentials{Token: readToken})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Status(t.Context())
		c.Close()
		select {
		case text := <-heard:
			if got := strings.Contains(text, readToken); got != clear {
				t.Errorf("%s: the token goes in the clear: %v, want %v", addr, got, clear)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: nothing came", addr)
		}
	}
}

func statusOf(err error) int {
	if err == nil {
		return 200
	}
	if p, ok := err.(*problem.Problem); ok { //nolint:errorlint // the client returns it bare
		return p.StatusCode()
	}
	return 0
}

// certificate returns the credentials of a client that trusts the authority.
func certificate(believe *ca, own ...tls.Certificate) client.Credentials {
	return client.Credentials{TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: believe.pool(), Certificates: own}}
}

func serveOne(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
