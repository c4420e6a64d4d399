package admin_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/apitest"
	"shardway/admin/auth"
	"shardway/internal/problem"
)

// FuzzRequest tests that no request crashes the server, that each gets the requested response or a
// problem, and that no action runs without a token.
func FuzzRequest(f *testing.F) {
	for _, line := range everyPath {
		f.Add(line+" HTTP/1.1\r\nHost: localhost\r\n\r\n", true)
	}
	f.Add("POST /v1/remove HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"node\":\"n3\"}", true)
	f.Add("GET /v1/map?after=16&wait=1ns HTTP/1.1\r\nHost: [::1\r\nIf-None-Match: W/\"17\", *\r\nAccept: text/html;q=1e3\r\n\r\n", true)
	f.Add("POST /v1/step-down HTTP/1.1\r\nHost: a:b:c\r\nOrigin: null\r\nSec-Fetch-Site: cross-site\r\nAuthorization: Bearer\r\n\r\n", false)
	f.Fuzz(func(t *testing.T, text string, guarded bool) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || r.RequestURI == "*" || strings.HasPrefix(r.URL.Path, "/debug/") || strings.Contains(r.URL.RawQuery, "wait") || strings.Contains(r.URL.RawQuery, "after") {
			return // profiles and long polls take long
		}
		r = r.WithContext(t.Context())
		r.RemoteAddr = "192.0.2.1:1234"
		cluster := newFake()
		o := admin.Options{API: apitest.SetOf(cluster), Metrics: prometheus.NewRegistry(), Log: zerolog.Nop()}
		if guarded {
			o.Access.Write = tokens(t, writeToken)
		}
		shown := strings.Contains(r.Header.Get("Authorization"), writeToken)
		res := serveOne(admin.New(o).Handler(), r)
		if guarded && !shown && (res.Code != 401 || len(cluster.actions()) > 0) {
			t.Fatalf("%q: %d, did %v, without a token", text, res.Code, cluster.actions())
		}
		if res.Code >= 400 {
			if p, err := problem.Decode(res.Body.Bytes()); err != nil || p.StatusCode() != res.Code {
				t.Fatalf("%q: %d with %q: %v", text, res.Code, res.Body, err)
			}
		}
		if res.Header().Get("X-Content-Type-Options") != "nosniff" || res.Header().Get("Server") != "shardway-admin" {
			t.Fatalf("%q: headers %v", text, res.Header())
		}
	})
}

func FuzzParseTokens(f *testing.F) {
	f.Add("# c\nalice "+writeToken+"\r\n\n"+readToken, writeToken)
	f.Add(readToken+" x", "")
	f.Fuzz(func(t *testing.T, text, token string) {
		all, err := auth.ParseTokens([]byte(text))
		if err != nil {
			return
		}
		s := admin.New(admin.Options{API: apitest.SetOf(newFake()), Log: zerolog.Nop(), Access: auth.Access{Read: all}})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/livez", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "192.0.2.1:1234"
		r.Header["Authorization"] = []string{"Bearer " + token}
		in := false
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			in = in || len(fields) > 0 && !strings.HasPrefix(fields[0], "#") && fields[len(fields)-1] == strings.TrimSpace(token)
		}
		if res := serveOne(s.Handler(), r); (res.Code == 200) != in {
			t.Fatalf("token %q of %q: %d, want it let in: %v", token, text, res.Code, in)
		}
	})
}

// FuzzCaller tests that any address and any host name is checked, and that rejections are limited.
func FuzzCaller(f *testing.F) {
	f.Add("10.0.0.1:80", "localhost")
	f.Add("[fe80::1%eth0]:80", "[fe80::1%25eth0]:8081")
	f.Add("@", "::1")
	f.Fuzz(func(t *testing.T, remote, host string) {
		s := admin.New(admin.Options{API: apitest.SetOf(newFake()), Log: zerolog.Nop()})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/livez", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr, r.Host = remote, host
		until := time.Now().Add(time.Minute)
		for range 12 {
			switch res := serveOne(s.Handler(), r); {
			case res.Code == 200:
				if strings.ContainsAny(host, " /<>\"'") {
					t.Fatalf("called by the name %q", host)
				}
				return
			case res.Code != 403 && res.Code != 429:
				t.Fatalf("%d for %q", res.Code, host)
			}
		}
		if res := serveOne(s.Handler(), r); res.Code != 429 && time.Now().Before(until) {
			t.Fatalf("not limited: %d", res.Code)
		}
	})
}
