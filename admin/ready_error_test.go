package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/auth"
)

// A page can make a browser call the port at an address that does not look local: the private network
// rules of browsers do not cover 0.0.0.0, and ::ffff:127.0.0.1 is another spelling. Such a request is
// rejected.
func TestPortIsCalledByAddressesOfItsOwn(t *testing.T) {
	s, asked := admin.New(admin.Options{API: apitest.SetOf(&fake{})}), 0
	for host, want := range map[string]int{
		"127.0.0.1:8081": 200, "[::1]:8081": 200, "[::1]": 200, "localhost": 200, "10.0.0.3": 200,
		"0.0.0.0": 403, "0.0.0.0:8081": 403, "[::]:8081": 403, "[::ffff:127.0.0.1]:8081": 403, "[::ffff:7f00:1]": 403, "[::ffff:0.0.0.0]": 403,
		"[fe80::1%25x]": 403, "2130706433": 403, "127.1": 403, "0x7f.1": 403,
	} {
		for _, path := range []string{"/debug/pprof/cmdline", "/status"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			asked++ // each request from its own address, because rejections are limited
			r.Host, r.RemoteAddr = host, fmt.Sprintf("192.0.2.%d:1", asked)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s of %s: %d, want %d", path, host, w.Code, want)
			}
		}
	}
}

type unready struct{ fake }

func (*unready) Ready() error {
	return &api.UnreadyError{Brief: "no lease", Why: "10.0.0.7:7947 does not answer"}
}

// The addresses of the cluster are visible to operators only, not to health probes and not to a page
// whose name resolves to this port.
func TestOnlyOperatorsLearnWhyANodeIsNotReady(t *testing.T) {
	tokens, err := auth.ParseTokens([]byte("bob " + readToken))
	if err != nil {
		t.Fatal(err)
	}
	open := admin.New(admin.Options{API: apitest.SetOf(&unready{})}).Handler()
	closed := admin.New(admin.Options{API: apitest.SetOf(&unready{}), Access: auth.Access{Read: tokens}}).Handler()
	for name, tc := range map[string]struct {
		h           http.Handler
		host, token string
		brief, full bool
	}{
		"loopback":            {open, "127.0.0.1:8081", "", true, true},
		"another name":        {open, "evil.example", "", true, false},
		"with a token":        {closed, "ops.example", readToken, true, true},
		"without a token":     {closed, "127.0.0.1:8081", "", false, false},
		"with a wrong token":  {closed, "127.0.0.1:8081", readToken + "x", false, false},
		"the port for probes": {admin.ProbeHandler(probed{&unready{}, &self{}}), "127.0.0.1:8082", "", true, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
		if r.Host = tc.host; tc.token != "" {
			r.Header.Set("Authorization", "Bearer "+tc.token)
		}
		w := httptest.NewRecorder()
		tc.h.ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code == http.StatusOK || strings.Contains(body, "no lease") != tc.brief || strings.Contains(body, "10.0.0.7") != tc.full {
			t.Errorf("%s: %d %s", name, w.Code, body)
		}
	}
	if got := api.Brief(errors.New("dial tcp 10.0.0.7:7947: no route")); strings.Contains(got, "10.") {
		t.Errorf("Brief of any error = %q", got)
	}
}

// The error does not repeat its prefix. Once, it was "draining: draining".
func TestUnreadyErrorRepeatsNothing(t *testing.T) {
	for _, tc := range []struct{ brief, why, want string }{
		{"no lease", "", "no lease"},
		{"no lease", "no-lease: node a has no lease", "no lease: no-lease: node a has no lease"},
		{"draining", "draining: node a is to stop", "draining: node a is to stop"},
		{"joining: not in the shard map yet", "joining: node a is not in the shard map yet", "joining: node a is not in the shard map yet"},
	} {
		if got := (&api.UnreadyError{Brief: tc.brief, Why: tc.why}).Error(); got != tc.want {
			t.Errorf("%q and %q say %q, want %q", tc.brief, tc.why, got, tc.want)
		}
	}
}
