package admin_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/internal/problem"
)

var update = flag.Bool("update", false, "write the golden files anew")

func body(res *httptest.ResponseRecorder) string { return res.Body.String() }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s, want\n%s", name, got, want)
	}
}

func TestJSONHasTheDocumentedNames(t *testing.T) {
	h := handlerOf(newFake())
	for name, target := range map[string]string{
		"status.json":          "/status",
		"nodes.json":           "/v1/nodes",
		"shards.json":          "/v1/shards",
		"shards-n2.json":       "/v1/shards?node=n2",
		"shards-orphans.json":  "/v1/shards?node=",
		"shards-none.json":     "/v1/shards?node=n2&state=orphaned",
		"shards-moving.json":   "/v1/shards?state=moving",
		"running.json":         "/v1/running",
		"checkup.json":         "/v1/checkup?reach=true",
		"shard-1.json":         "/v1/shards/1",
		"shard-2.json":         "/v1/shards/2",
		"hot.json":             "/v1/hot",
		"sockets.json":         "/v1/websockets",
		"endpoints.json":       "/v1/endpoints",
		"endpoints-http.json":  "/v1/endpoints?name=http",
		"map.json":             "/v1/map",
		"locate.json":          "/v1/locate?key=" + keyOf(2),
		"locate-orphaned.json": "/v1/locate?key=" + keyOf(3),
	} {
		res := fetchJSON(t, h, "GET", target, "")
		if res.Code != 200 || res.Header().Get("Content-Type") != "application/json" {
			t.Errorf("GET %s = %d, %s", target, res.Code, res.Header().Get("Content-Type"))
		}
		golden(t, name, body(res))
	}
}

func TestEmptyClusterHasEmptyLists(t *testing.T) {
	h := handlerOf(blank{newFake()})
	for target, want := range map[string]string{
		"/v1/nodes":     `{"leader":"","epoch":0,"nodes":[]}`,
		"/v1/shards":    `{"epoch":0,"proposed":0,"total":0,"shards":[]}`,
		"/v1/endpoints": `{"endpoints":[],"version":"cbf29ce484222325"}`,
		"/v1/map":       `{"epoch":0,"shards":3,"hash":"xxhash64","nodes":[],"owners":[-1,-1,-1]}`,
	} {
		if got := body(fetchJSON(t, h, "GET", target, "")); got != want+"\n" {
			t.Errorf("GET %s = %s, want %s", target, got, want)
		}
	}
}

// blank is a node without a cluster state.
type blank struct{ *fake }

func (blank) Status() api.Status        { return api.Status{} }
func (blank) Shards() api.ShardList     { return api.ShardList{} }
func (blank) Endpoints() []api.Endpoint { return nil }
func (blank) Map() api.Map              { return api.Map{Shards: 3} }

func TestAcceptDecidesTheForm(t *testing.T) {
	h := handlerOf(newFake())
	for accept, html := range map[string]bool{
		"":                                     false,
		"*/*":                                  false,
		"application/json":                     false,
		"text/html":                            true,
		"text/*":                               true,
		"text/html;q=0.5, application/json":    false,
		"text/html, application/json":          false,
		"text/html;q=0, */*":                   false,
		"application/json;q=0.1, text/html":    true,
		"text/html;q=nonsense, */*;q=0.1":      false,
		"text/html; level=1; q=0.9, */*;q=0.8": true,
		";;;,,,":                               false,
	} {
		res := fetchJSON(t, h, "GET", "/status", "", "Accept", accept)
		if got := strings.HasPrefix(res.Header().Get("Content-Type"), "text/html"); got != html {
			t.Errorf("Accept %q: HTML = %v, want %v", accept, got, html)
		}
		if res.Header().Get("Vary") != "Accept" {
			t.Errorf("Accept %q: no Vary", accept)
		}
	}
}

func TestProbes(t *testing.T) {
	f := newFake()
	h := handlerOf(f)
	for _, path := range []string{"/livez", "/readyz"} {
		if res := fetchJSON(t, h, "GET", path, ""); res.Code != 200 || body(res) != "ok\n" {
			t.Errorf("GET %s = %d, want ok", path, res.Code)
		}
	}
	f.notReady = errors.New("no lease: no leader since 3s")
	if res := fetchJSON(t, h, "GET", "/livez", ""); res.Code != 200 {
		t.Errorf("GET /livez = %d, want 200 also when not ready", res.Code)
	}
	res := fetchJSON(t, h, "GET", "/readyz", "")
	p := problemOf(t, res)
	if res.Code != 503 || p.Code != problem.NotReady || p.Detail != "no lease: no leader since 3s" {
		t.Errorf("GET /readyz = %d %+v, want 503 with the reason", res.Code, p)
	}
}

func problemOf(t *testing.T, res *httptest.ResponseRecorder) *problem.Problem {
	t.Helper()
	b := body(res)
	p, err := problem.Decode([]byte(b))
	if err != nil {
		t.Fatalf("%d: %v: %s", res.Code, err, b)
	}
	if got := res.Header().Get("Shardway-Error"); got != string(p.Code) || res.Header().Get("Content-Type") != problem.ContentType {
		t.Errorf("Shardway-Error = %q, Content-Type = %q, want %q and a problem", got, res.Header().Get("Content-Type"), p.Code)
	}
	return p
}

func TestParameterErrorsNameParameterAndRemedy(t *testing.T) {
	f := newFake()
	h := handlerOf(f)
	js := []string{"Content-Type", "application/json"}
	for _, tc := range []struct {
		method, target, body string
		headers              []string
		status               int
		detail               string
	}{
		{"GET", "/nope", "", nil, 404, `"/nope" is not a path of the admin port, which has /status, /livez, /readyz, /metrics, /debug/pprof/ and /v1/…`},
		{"POST", "/status", "", nil, 405, "POST /status: use GET, HEAD"},
		{"GET", "/v1/remove?node=n2", "", nil, 405, "GET /v1/remove: use POST"},
		{"GET", "/status?x=1", "", nil, 400, `x = "1" is not known here: this takes no parameters`},
		{"GET", "/v1/shards?nodes=n1", "", nil, 400, `nodes = "n1" is not known here: use service, node, state`},
		{"GET", "/v1/shards?node=a&node=b", "", nil, 400, `node = "a,b" is there more than once: give it once`},
		{"GET", "/v1/shards?node=%zz", "", nil, 400, `the query is malformed (invalid URL escape "%zz"): percent-encode it`},
		{"GET", "/v1/shards?state=lost", "", nil, 400, `state = "lost" is not a shard state: use owned, moving, orphaned`},
		{"GET", "/v1/running?node=n1", "", nil, 400, `node = "n1" is not known here: this takes no parameters`},
		{"GET", "/v1/map?after=x", "", nil, 400, `after = "x" is not a whole number: give a value such as 17`},
		{"GET", "/v1/map?after=1&wait=soon", "", nil, 400, `wait = "soon" is not a duration: give a value such as 30s`},
		{"GET", "/v1/map?after=1&wait=-1s", "", nil, 400, `wait = "-1s" is not a duration: give a value such as 30s`},
		{"GET", "/v1/map?wait=1s", "", nil, 400, `after is missing: wait requires the epoch you already have, as in ?after=17&wait=30s`},
		{"GET", "/v1/locate", "", nil, 400, "key is missing: give the key that requests carry, as in ?key=alice"},
		{"GET", "/v1/locate?key=", "", nil, 400, `key = "" is empty: give the key of a request`},
		{"POST", "/v1/remove", "", nil, 400, `node is missing: give the ID of a node, as in {"node":"n3"} or ?node=n3`},
		{"POST", "/v1/remove?node=n3&force=perhaps", "", nil, 400, `force = "perhaps" is neither true nor false: give one of them`},
		{"POST", "/v1/remove", `{"node":"n3"}`, nil, 415, `Content-Type = "" is not application/json: send JSON and say so, or put the arguments into the query`},
		{"POST", "/v1/remove", `node=n3`, []string{"Content-Type", "text/plain"}, 415, `Content-Type = "text/plain" is not application/json: send JSON and say so, or put the arguments into the query`},
		{"POST", "/v1/remove", `{"node":3}`, js, 400, `node = "3" is a number: give a string`},
		{"POST", "/v1/remove", `{"name":"n3"}`, js, 400, `name = "\"n3\"" is not known here: use node, force, reason`},
		{"POST", "/v1/remove", `{"node":"n3"} {}`, js, 400, `the body is not one JSON object (invalid character '{' after top-level value): send one such as {"node":"n3"}`},
		{"POST", "/v1/remove", `{"node":"n3","node":"n2"}`, js, 400, `node = "\"n2\"" is there more than once: give it once`},
		{"POST", "/v1/remove", `{"node":"n3","n\u006fde":"n3"}`, js, 400, `node = "\"n3\"" is there more than once: give it once`},
		{"POST", "/v1/remove?force=true", `{"node":"n3"}`, js, 400, `force = "true" is not known here: this takes no parameters`},
		{"POST", "/v1/remove", strings.Repeat(" ", 70000), js, 413, "the body is longer than 65536 bytes"},
		{"POST", "/v1/drain?node=n3&idle_first=soon", "", nil, 400, `idle_first = "soon" is not a duration from 1s to 24h0m0s: give a value such as 30s, or omit it`},
		{"POST", "/v1/drain?node=n3&idle_first=25h", "", nil, 400, `idle_first = "25h" is not a duration from 1s to 24h0m0s: give a value such as 30s, or omit it`},
		{"POST", "/v1/drain?node=n3&idle_first=10ms", "", nil, 400, `idle_first = "10ms" is not a duration from 1s to 24h0m0s: give a value such as 30s, or omit it`},
		{"POST", "/v1/step-down?node=n3", "", nil, 400, `node = "n3" is not known here: use to, reason`},
	} {
		res := fetchJSON(t, h, tc.method, tc.target, tc.body, tc.headers...)
		if p := problemOf(t, res); res.Code != tc.status || p.Detail != tc.detail {
			t.Errorf("%s %s %.20q = %d %q, want %d %q", tc.method, tc.target, tc.body, res.Code, p.Detail, tc.status, tc.detail)
		}
		if tc.status == 405 && res.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", tc.method, tc.target)
		}
	}
	if did := f.actions(); len(did) != 0 {
		t.Errorf("mistakes led to actions: %+v", did)
	}
}

func TestActionsReachTheCluster(t *testing.T) {
	js := []string{"Content-Type", "application/json; charset=utf-8"}
	for _, tc := range []struct {
		target, body string
		headers      []string
		want         api.Action
	}{
		{"/v1/remove?node=n3", "", nil, api.Action{Verb: api.Remove, Node: "n3"}},
		{"/v1/remove?node=n3&force=1", "", nil, api.Action{Verb: api.Remove, Node: "n3", Force: true}},
		{"/v1/remove", `{"node":"n3","force":true}`, js, api.Action{Verb: api.Remove, Node: "n3", Force: true}},
		{"/v1/drain?node=n3&idle_first=30s", "", nil, api.Action{Verb: api.Drain, Node: "n3", IdleFirst: "30s"}},
		{"/v1/drain", `{"node":"n3","idle_first":"2m"}`, js, api.Action{Verb: api.Drain, Node: "n3", IdleFirst: "2m"}},
		{"/v1/step-down", "", nil, api.Action{Verb: api.StepDown}},
		{"/v1/step-down", "{}", js, api.Action{Verb: api.StepDown}},
		{"/v1/step-down", `{"to":"n3"}`, js, api.Action{Verb: api.StepDown, To: "n3"}},
		{"/v1/step-down?to=n3", "", nil, api.Action{Verb: api.StepDown, To: "n3"}},
	} {
		f := newFake()
		res := fetchJSON(t, handlerOf(f), "POST", tc.target, tc.body, tc.headers...)
		tc.want.By = "anybody from 192.0.2.1:1234" // the address that httptest uses
		if did := f.actions(); res.Code != 200 || len(did) != 1 || !reflect.DeepEqual(did[0], tc.want) {
			t.Errorf("POST %s %s = %d, did %+v, want %+v", tc.target, tc.body, res.Code, did, tc.want)
		}
	}
}

func TestRefusedActionsKeepTheirReason(t *testing.T) {
	own := problem.New(problem.Conflict, "of the leader's making")
	for _, tc := range []struct {
		err    error
		status int
		detail string
	}{
		{fmt.Errorf("%w: election under way since 2s", api.ErrNoLeader), 503, "remove: no leader: election under way since 2s"},
		{fmt.Errorf("%w: %q; known are n1, n2", api.ErrUnknownNode, "n3"), 404, `remove: unknown node: "n3"; known are n1, n2`},
		{fmt.Errorf("%w: two voters would remain", api.ErrRefused), 409, "remove: refused: two voters would remain"},
		{fmt.Errorf("passed on: %w", own), 409, "of the leader's making"},
		{fmt.Errorf("%w: leadership lost", api.ErrUnknown), 504, "remove: outcome unknown: leadership lost: the action may still take effect; check /status before you try again"},
		{errors.New("disk full"), 500, "remove: disk full"},
	} {
		f := newFake()
		f.refuse = tc.err
		res := fetchJSON(t, handlerOf(f), "POST", "/v1/remove?node=n3", "")
		if p := problemOf(t, res); res.Code != tc.status || p.Detail != tc.detail {
			t.Errorf("%v = %d %q, want %d %q", tc.err, res.Code, p.Detail, tc.status, tc.detail)
		}
	}
}

func TestPageOfAnotherOriginChangesNothing(t *testing.T) {
	f := newFake()
	h := handlerOf(f)
	res := fetchJSON(t, h, "POST", "/v1/remove?node=n3", "", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if res.Code != 403 || len(f.actions()) != 0 {
		t.Errorf("cross-origin POST = %d, did %v, want 403 and nothing", res.Code, f.actions())
	}
}

func TestEveryAnswerPassesTheGuard(t *testing.T) {
	h := admin.New(admin.Options{API: apitest.SetOf(newFake()), Metrics: prometheus.NewRegistry(), Log: zerolog.Nop()}).Handler()
	for _, path := range []string{"/", "/status", "/livez", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/heap", "/v1/map", "/nope", "//x"} {
		h := fetchJSON(t, h, "GET", path, "").Header()
		if h.Get("Server") != "shardway-admin" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("GET %s did not pass the guard: %v", path, h)
		}
	}
}

func TestMetricsComeFromTheRegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "shardway_test_total", Help: "x"})
	reg.MustRegister(c)
	c.Add(3)
	h := admin.New(admin.Options{API: apitest.SetOf(newFake()), Metrics: reg, Log: zerolog.Nop()}).Handler()
	if got := body(fetchJSON(t, h, "GET", "/metrics", "")); !strings.Contains(got, "shardway_test_total 3") {
		t.Errorf("GET /metrics = %s", got)
	}
}

func TestRootLeadsToStatus(t *testing.T) {
	res := fetchJSON(t, handlerOf(newFake()), "GET", "/", "")
	if res.Code != 302 || res.Header().Get("Location") != "/status" {
		t.Errorf("GET / = %d to %q", res.Code, res.Header().Get("Location"))
	}
}
