//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/verdict"
)

// walk is a cluster that is taken from one state to the next.
type walk struct {
	t *testing.T
	c *cluster.Cluster
}

// page is what a browser without scripts gets of a node's page.
func (w walk) page(n *cluster.Node) string {
	w.t.Helper()
	_, body := w.get(n.Admin, "/status", "Accept", "text/html")
	return html.UnescapeString(body)
}

// get reads what an address of a node answers, whatever that is.
func (w walk) get(addr, path string, header ...string) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("X-Shard-Key", "alice")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// run runs one command at a node.
func (w walk) run(n *cluster.Node, args ...string) (code int, out string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), binaries(w.t).Node, append(args, "--admin", n.Admin)...)
	var b bytes.Buffer
	cmd.Stdout = &b
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), b.String()
}

// says waits until a node finds this, and returns it. The log, the gauge, the page and
// `shardway status` say the same.
func (w walk) says(n *cluster.Node, code verdict.Code, text string) verdict.Finding {
	w.t.Helper()
	var found verdict.Finding
	n.Await(w.t, fmt.Sprintf("%s: %s", code, text), func(s cluster.Status) bool {
		for _, f := range s.Findings {
			if f.Code == code && strings.Contains(f.Text, text) {
				found = f
				return true
			}
		}
		return false
	})
	logged := func(log string) bool {
		for line := range strings.Lines(log) {
			var l struct{ Message, Code, Text string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Message == "finding raised" && l.Code == string(code) {
				return true
			}
		}
		return false
	}
	if !logged(n.Process().Output(1_000_000)) {
		w.t.Errorf("the log of %s has no line of %s", n.ID, code)
	}
	if m, err := n.Metrics(w.t.Context()); err != nil || m.Sum("shardway_finding", `code="`+string(code)+`"`) < 1 {
		w.t.Errorf("the gauge of %s does not tell of %s: %v", n.ID, code, err)
	}
	if page := w.page(n); !strings.Contains(page, string(code)) || !strings.Contains(page, found.Text) {
		w.t.Errorf("the page of %s has no %s: %s", n.ID, code, found.Text)
	}
	want := map[bool]int{true: 3}[found.Severity == verdict.Outage]
	exit, out := w.run(n, "status")
	if line := strings.ToUpper(found.Severity.String()) + " " + found.String() + "\n"; !strings.Contains(out, line) || want == 3 && exit != 3 {
		w.t.Errorf("shardway status ends with %d and says\n%s\nwant %d and the line\n%s", exit, out, want, line)
	}
	return found
}

// tells is says of what keeps a node from serving: its readiness, and its clients, are
// told the same.
func (w walk) tells(n *cluster.Node, code verdict.Code, text string) {
	w.t.Helper()
	f := w.says(n, code, text)
	if status, body := w.get(n.Admin, "/readyz"); status != 503 || !strings.Contains(unquoted(body), f.Text) {
		w.t.Errorf("/readyz of %s is %d, %s, want it to say %q", n.ID, status, body, f.Text)
	}
	status, body := w.get(n.Addr, "/")
	var p struct{ Finding string }
	if err := json.Unmarshal([]byte(body), &p); err != nil || status < 500 || !strings.HasPrefix(p.Finding, string(code)+": ") || !strings.HasPrefix(f.Text, strings.TrimPrefix(p.Finding, string(code)+": ")) && !strings.Contains(p.Finding, text) {
		w.t.Errorf("a client of %s gets %d, %s, want the finding %q", n.ID, status, body, f.Text)
	}
}

// unquoted is the text of JSON as people read it.
func unquoted(s string) string { return strings.ReplaceAll(s, `\"`, `"`) }

// well waits until a node finds nothing worse than an info. What a machine with too little
// time for all has brought about is told for up to a minute, and not waited for.
func (w walk) well(nodes ...*cluster.Node) {
	w.t.Helper()
	for _, n := range nodes {
		n.Await(w.t, "all is well", func(s cluster.Status) bool {
			return verdict.Worst(slices.DeleteFunc(s.Findings, func(f verdict.Finding) bool {
				return f.Code == verdict.ClockJump || f.Code == verdict.DiskSlow
			})) <= verdict.Info
		})
	}
}

// TestEveryStateIsReportedConsistently takes one cluster of real processes through what can be the
// matter: in each state, status and its exit code, readiness, the answers to clients, the
// log and the gauge tell the same.
func TestEveryStateIsReportedConsistently(t *testing.T) {
	t.Parallel() // it waits for elections and checks most of the time
	w := walk{t, cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Flags: []string{"--queue-wait", "300ms", "--queue-requests", "2", "--health-interval", "100ms"}})}
	a, b, c := w.c.Prepare(t, "--bootstrap-expect", "3"), w.c.Prepare(t, "--bootstrap-expect", "3"), w.c.Prepare(t, "--bootstrap-expect", "3")
	w.c.AddJoinFlags()
	lost := w.c.Prepare(t, "--join", a.App.Addr, "--join", c.Gossip)
	w.birth(a, b, c, lost)
	w.voters(a, b, c)
	w.apps(a, b, c)
	w.wishes(a, c)
	if code, out := w.run(a, "doctor"); code != 0 || !strings.Contains(out, "c     ") || strings.Contains(out, "unreachable") {
		t.Errorf("doctor ends with %d:\n%s", code, out)
	}
	w.guest(a, lost)
}

// birth starts the nodes one after the other.
func (w walk) birth(a, b, c, lost *cluster.Node) {
	_, port, err := net.SplitHostPort(lost.Admin)
	if err != nil {
		w.t.Fatal(err)
	}
	lost.Start(w.t, "--admin", ":"+port, "--insecure")
	a.Start(w.t)
	b.Start(w.t)
	w.tells(a, verdict.Bootstrapping, "2 of the 3 nodes that must start the cluster are here (a and b)")
	w.says(lost, verdict.NoPeers, a.App.Addr+" (it is an HTTP port and not a gossip port: name that of the node")
	w.tells(lost, verdict.NoPeers, c.Gossip+" (connection refused)")
	w.says(lost, verdict.Insecure, "can change the cluster")
	if _, body := w.get(lost.Addr, "/"); strings.Contains(body, c.Gossip) {
		w.t.Errorf("clients are told addresses: %s", body)
	}
	lost.Kill(w.t)
	c.Start(w.t)
	w.c.AwaitServedBy(w.t, a, b, c)
	w.well(a, b, c)
}

// voters takes the voters away, and brings them back.
func (w walk) voters(a, b, c *cluster.Node) {
	c.Kill(w.t)
	w.says(a, verdict.NoFaultTolerance, "2 of 3 voters are heard (a and b) and it takes 2: the loss of one more stops the cluster; c is missing")
	b.Kill(w.t)
	w.tells(a, verdict.NoQuorum, "1 of 3 voters is here and it takes 2, so there is no leader: b and c are missing")
	w.says(a, verdict.Unavailable, fmt.Sprintf("no node serves any of the %d shards", shards))
	w.says(a, verdict.NoLease, "node a has no lease")
	w.crowd(a)
	w.says(a, verdict.QueueFull, " refused, 0 waiting")
	if s, err := a.Status(w.t.Context()); err != nil || s.State == "operational" || s.Shards.Unavailable != shards {
		w.t.Errorf("%+v, %v", s, err)
	}
	if _, out := w.run(a, "locate", "alice"); !strings.Contains(out, "unavailable: this node knows no leader") {
		w.t.Errorf("locate says\n%s", out)
	}
	if _, out := w.run(a, "shards"); !strings.Contains(out, "unavailable") || strings.Contains(out, " owned ") {
		w.t.Errorf("shards says\n%s", out)
	}
	b.Start(w.t)
	c.Start(w.t)
	w.c.AwaitServedBy(w.t, a, b, c)
	w.well(a, b, c)
}

// crowd has more clients come than may wait, and waits with them.
func (w walk) crowd(n *cluster.Node) {
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { w.get(n.Addr, "/") })
	}
	all.Wait()
}

// apps ends the apps, one and then all.
func (w walk) apps(a, b, c *cluster.Node) {
	b.App.Kill(w.t)
	w.says(a, verdict.AppUnhealthy, "the app of node b does not answer")
	w.says(b, verdict.AppUnhealthy, "connection refused")
	w.says(b, verdict.Joining, "node b is not in the shard map yet")
	a.App.Kill(w.t)
	c.App.Kill(w.t)
	w.tells(a, verdict.NoHealthyApp, "no node has an app that answers: a")
	for _, n := range []*cluster.Node{a, b, c} {
		n.App.Start(w.t)
	}
	w.c.AwaitServedBy(w.t, a, b, c)
	w.well(a, b, c)
}

// wishes are what operators ask for.
func (w walk) wishes(a, c *cluster.Node) {
	a.Do(w.t, "pause", url.Values{"for": {"30m"}})
	w.says(a, verdict.Paused, "planned moves of shards are paused for 30m")
	a.Do(w.t, "resume", nil)
	a.Do(w.t, "cordon", url.Values{"node": {c.ID}})
	w.says(a, verdict.Cordoned, "c is cordoned")
	a.Do(w.t, "uncordon", url.Values{"node": {c.ID}})
	a.Do(w.t, "drain", url.Values{"node": {c.ID}})
	w.says(a, verdict.Draining, "c is drained, and owns nothing")
	a.Do(w.t, "uncordon", url.Values{"node": {c.ID}})
	a.Do(w.t, "quarantine", url.Values{"shard": {"1"}, "hash": {"0123456789abcdef"}})
	w.says(a, verdict.Quarantined, "1 key is in quarantine")
}

// guest adds a node without an app, with a certificate that is about to end, and with more
// to announce than there is room for soon.
func (w walk) guest(a, d *cluster.Node) {
	cert := filepath.Join(w.c.Dir(), "guest.pem")
	newAuthority(w.t, "guests").issue(w.t, cert, d.ID) // for an hour
	label := strings.Repeat("m", 63)
	d.Start(w.t, "--upstream", "", "--join", a.Gossip, "--tls-cert", cert, "--tls-key", cert,
		"--zone", strings.Repeat("z", 64), "--app-version", strings.Repeat("v", 36), "--endpoint", "metrics="+label+"."+label+".example:9100")
	w.says(d, verdict.NoApp, "node d is a gateway, because --upstream is missing: it owns nothing, and forwards to the others")
	w.says(d, verdict.TagsNearlyFull, "the gossip tags of node d use ")
	w.says(d, verdict.CertificateExpiring, "the certificate of node d for the app port expires on ")
}
