package admin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/internal/problem"
)

const firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// saying is a node with the status of the test.
type saying struct {
	*fake
	st api.Status
}

func (f saying) Status() api.Status { return f.st }

// dashboardURL returns the page and the headers that a browser gets for this status.
func dashboardURL(t *testing.T, status api.Status) (page string, header http.Header) {
	t.Helper()
	res := fetchJSON(t, handlerOf(saying{newFake(), status}), "GET", "/status", "", "Accept", firefox)
	if got := res.Header().Get("Content-Type"); res.Code != 200 || got != "text/html; charset=utf-8" {
		t.Fatalf("GET /status = %d, %s, want HTML", res.Code, got)
	}
	return body(res), res.Header()
}

func TestBrowserGetsAPage(t *testing.T) {
	page, _ := dashboardURL(t, newFake().Status())
	for _, want := range []string{
		"n1", "c0ffee", `http-equiv="refresh"`, "412 ms", "17 → 18", "n2&lt;script&gt;", "1h1m40s", `max="1000" value="250"`, "this node", "2.1",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if !strings.HasSuffix(page, "</html>\n") || strings.Contains(page, "ZgotmplZ") {
		t.Errorf("page is cut, or its template puts something where it must not be:\n%s", page)
	}
	page, _ = dashboardURL(t, api.Status{})
	if !strings.Contains(page, "none known yet") || !strings.HasSuffix(page, "</html>\n") {
		t.Errorf("page of an empty node is cut or lacks the note:\n%s", page)
	}
}

// The served page begins with the main finding, for a reader whose browser runs no script or has not
// run it yet.
func TestPageBeginsWithTheMainFinding(t *testing.T) {
	quorum := diagnosis.Finding{Code: diagnosis.NoQuorum, Severity: diagnosis.Outage, Text: "1 of 3 voters is here", Remedy: "start b or c"}
	unavailable := diagnosis.Finding{Code: diagnosis.Unavailable, Severity: diagnosis.Outage, Text: "nobody serves", Remedy: "see above"}
	even := diagnosis.Finding{Code: diagnosis.EvenVoters, Severity: diagnosis.Warning, Text: "two <b> voters", Remedy: "add <one>"}
	paused := diagnosis.Finding{Code: diagnosis.Paused, Severity: diagnosis.Info, Text: "planned moves are paused", Remedy: "shardway resume"}
	for _, tc := range []struct {
		name                     string
		change                   func(*api.Status)
		severity, word, headline string
	}{
		{"all is well", nil, "ok", "Healthy", "All 4 shards served, by 2 nodes"},
		{"moves", func(st *api.Status) { st.State, st.Shards.Moving = "rebalancing", 3 }, "info", "Rebalancing", "3 of 4 shards on the move"},
		{"no owner", func(st *api.Status) { st.Shards.Unavailable = 1 }, "info", "Rebalancing", "1 of 4 shards unavailable"},
		{"joins", func(st *api.Status) { st.State = "joining" }, "info", "Rebalancing", "n1 is joining"},
		{"a warning", func(st *api.Status) { st.Findings = []diagnosis.Finding{even, paused} }, "warning", "Warning: even-voters", "two &lt;b&gt; voters"},
		{"outages", func(st *api.Status) { st.Findings = []diagnosis.Finding{quorum, unavailable, unavailable, even} }, "outage", "Outage: no-quorum, unavailable", "1 of 3 voters is here"},
		{"as somebody wanted it", func(st *api.Status) { st.Findings = []diagnosis.Finding{paused} }, "info", "Note: paused", "planned moves are paused"},
	} {
		st := api.Status{
			Node: "n1", State: "operational", Shards: api.ShardCounts{Total: 4, Owned: 2},
			Nodes: []api.Node{{ID: "n1", State: "active", Shards: 2}, {ID: "n2", State: "active", Shards: 2}, {ID: "n3", State: "active"}},
		}
		if tc.change != nil {
			tc.change(&st)
		}
		page, _ := dashboardURL(t, st)
		for i, f := range st.Findings {
			if i > 0 && !strings.Contains(page, `<span class="text">`+html.EscapeString(f.Text)) {
				t.Errorf("%s: the page lacks %s", tc.name, f)
			}
			if !strings.Contains(page, f.Severity.String()+" "+string(f.Code)+`</b>`) || !strings.Contains(page, `<span class="remedy">`+html.EscapeString(f.Remedy)) {
				t.Errorf("%s: the page lacks the code or the remedy of %s", tc.name, f)
			}
		}
		for _, want := range []string{
			`<html lang="en" data-severity="` + tc.severity + `">`, `<span id="word">` + tc.word + `</span>`, `>` + tc.headline + `</h1>`,
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %s", tc.name, want)
			}
		}
		if first := page[strings.Index(page, "<body>"):]; !regexp.MustCompile(`^<body>\s*<header`).MatchString(first) {
			t.Errorf("%s: the verdict does not come first", tc.name)
		}
	}
}

// Node ids, zones and versions are chosen by users and may contain markup. The page escapes them.
func TestPageMakesNoMarkupOfNames(t *testing.T) {
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}</style>`
	page, _ := dashboardURL(t, api.Status{
		Node: evil, Cluster: evil, Version: evil, State: evil, Role: evil, Leader: evil, Findings: []diagnosis.Finding{{Code: evil, Text: evil, Remedy: evil}, {Code: evil, Text: evil, Remedy: evil}},
		Timing: &api.TimingState{Timing: api.Timing{Lease: evil, DeadAfter: evil, Takeover: evil}},
		Keys:   &api.KeysState{Active: evil, Digest: evil, Pending: []api.PendingKeys{{Digest: evil, Loaded: []string{evil}, Missing: []string{evil}}}},
		Nodes: []api.Node{{
			ID: evil, State: evil, Role: evil, Zone: evil, Region: evil, Roles: []string{evil}, Meta: map[string]string{evil: evil}, Version: evil, AppVersion: evil, App: evil, Endpoints: map[string]string{evil: evil},
		}},
	})
	clean, _ := dashboardURL(t, api.Status{Findings: []diagnosis.Finding{{Remedy: "x"}, {Remedy: "x"}}, Timing: &api.TimingState{}, Nodes: []api.Node{{ID: "x"}}})
	tags := func(page string) map[string]int {
		n := map[string]int{}
		for _, tag := range regexp.MustCompile(`<[a-z]+`).FindAllString(page, -1) {
			n[tag]++
		}
		return n
	}
	have, want := tags(page), tags(clean)
	for _, tag := range []string{"<script", "<style", "<img", "<b"} {
		if have[tag] != want[tag] {
			t.Errorf("%d of %s, want %d", have[tag], tag, want[tag])
		}
	}
	if !strings.Contains(page, "&lt;img src=x onerror=alert(1)&gt;") {
		t.Error("the names are not shown as they are")
	}
}

// The Content-Security-Policy names exactly what is served and permits nothing else.
func TestCSPMatchesServedPage(t *testing.T) {
	page, header := dashboardURL(t, newFake().Status())
	hash := func(element string) string {
		m := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(page, -1)
		if len(m) != 1 {
			t.Fatalf("%d times <%s>, want once", len(m), element)
		}
		sum := sha256.Sum256([]byte(m[0][1]))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	want := "default-src 'none'; script-src " + hash("script") + "; style-src " + hash("style") +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; require-trusted-types-for 'script'; trusted-types 'none'"
	if got := header.Get("Content-Security-Policy"); got != want {
		t.Errorf("Content-Security-Policy = %s, want %s", got, want)
	}
	for _, never := range []string{` style="`, ` onclick`, ` onload`, " src=", "http://", "https://"} {
		if strings.Contains(strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, ""), never) {
			t.Errorf("the page has %q, which the policy does not let it have", never)
		}
	}
	if got := fetchJSON(t, handlerOf(newFake()), "GET", "/status", "").Header().Get("Content-Security-Policy"); strings.Contains(got, "script-src") || !strings.Contains(got, "default-src 'none'") {
		t.Errorf("Content-Security-Policy of JSON = %s", got)
	}
}

// The script sets text only. It contains nothing that creates markup or code from it.
func TestScriptMakesNoMarkup(t *testing.T) {
	files, err := filepath.Glob("web/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\b|new Function|setTimeout\(['"]|localStorage|sessionStorage|document\.cookie`)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := never.Find(b); m != nil {
			t.Errorf("%s has %s", file, m)
		}
	}
}

// The page of a cluster with 100 nodes and 16 384 shards stays small, because it is loaded while the
// network has problems, and its script polls every two seconds.
func TestPageOfManyIsLight(t *testing.T) {
	st := api.Status{Node: "node-0", State: "operational", Shards: api.ShardCounts{Total: 16384}}
	m := api.Map{Epoch: 17, Shards: 16384}
	for i := range 100 {
		id := fmt.Sprintf("node-%d.rack-7.example", i)
		st.Nodes = append(st.Nodes, api.Node{
			ID: id, State: "active", Role: "follower", Zone: "eu-central-1a", App: "healthy", Shards: 164, LastHeartbeatMS: 100, AppVersion: "2026.11.23",
			Endpoints: map[string]string{"http": "10.0.0.1:8080", "admin": "10.0.0.1:8081", "peer": "10.0.0.1:7947"},
		})
		m.Nodes = append(m.Nodes, api.MapNode{ID: id, HTTP: "10.0.0.1:8080"})
	}
	for i := range 16384 {
		m.Owners = append(m.Owners, i%100)
	}
	h := handlerOf(large{saying{newFake(), st}, m})
	for _, tc := range []struct {
		target, accept string
		most           int
	}{
		{"/status", firefox, 160 << 10},
		{"/status", "application/json", 40 << 10},
		{"/v1/map", "", 64 << 10},
	} {
		if n := len(body(fetchJSON(t, h, "GET", tc.target, "", "Accept", tc.accept))); n > tc.most {
			t.Errorf("%s as %.9s has %d bytes, want at most %d", tc.target, tc.accept, n, tc.most)
		} else {
			t.Logf("%s as %.9s has %d bytes", tc.target, tc.accept, n)
		}
	}
}

type large struct {
	saying
	m api.Map
}

func (l large) Map() api.Map { return l.m }

// A browser cannot send a token on its own. If one is required, the browser gets a page that asks for
// it. This page is the same for all clients and contains nothing about the cluster. All other requests
// are rejected as usual.
func TestBrowserIsAskedForAToken(t *testing.T) {
	for _, tc := range []struct {
		name, target string
		headers      []string
		asked        bool
	}{
		{"a browser", "/status", nil, true},
		{"at the root", "/", nil, true},
		{"follows a link", "/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, true},
		{"a wrong token", "/status", []string{"Authorization", "Bearer " + strings.Repeat("x", 30)}, false},
		{"a token in the address", "/status?token=" + writeToken, nil, false},
		{"another path", "/v1/map", nil, false},
		{"no browser", "/status", []string{"Accept", "application/json"}, false},
		{"by another name", "/status", []string{"Host", "evil.example"}, false},
		{"in a frame", "/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
		{"as an image", "/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, false},
	} {
		f := newFake()
		f.panics = true // panics if the cluster is accessed
		h, log := guarded(t, f)
		res := fetchJSON(t, h, "GET", tc.target, "", append([]string{"Accept", firefox}, tc.headers...)...)
		if res.Code != 401 || res.Header().Get("WWW-Authenticate") == "" || res.Header().Get("Shardway-Error") != string(problem.Unauthorized) {
			t.Errorf("%s: %d %v, want 401", tc.name, res.Code, res.Header())
		}
		if asked := strings.Contains(body(res), `id="unlock"`); asked != tc.asked {
			t.Errorf("%s: asked for a token: %v, want %v\n%s", tc.name, asked, tc.asked, body(res))
		}
		if strings.Contains(body(res), "c0ffee") || strings.Contains(body(res), "1.2.3") {
			t.Errorf("%s: the answer tells of the cluster", tc.name)
		}
		if refused := len(log.lines(t, "admin request refused")) > 0; refused == tc.asked {
			t.Errorf("%s: logged as refused: %v, want %v", tc.name, refused, !tc.asked)
		}
	}
	h, _ := guarded(t, newFake())
	if res := fetchJSON(t, h, "POST", "/status", "", "Accept", firefox); strings.Contains(body(res), "unlock") {
		t.Error("a form's POST is answered with the page")
	}
	if res := fetchJSON(t, h, "GET", "/status", "", "Accept", firefox, "Authorization", "Bearer "+readToken); res.Code != 200 || !strings.Contains(body(res), "c0ffee") {
		t.Errorf("with the token = %d, want the page", res.Code)
	}
}
