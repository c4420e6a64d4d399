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

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// diagnosisTest is a cluster that goes through all states in turn.
type diagnosisTest struct {
	t *testing.T
	c *cluster.Cluster
}

// page returns the page of a node as a browser without scripts shows it.
func (w diagnosisTest) page(node *cluster.Node) string {
	w.t.Helper()
	_, body := w.get(node.Admin, "/status", "Accept", "text/html")
	return html.UnescapeString(body)
}

// get returns the response of an address of a node, with any status.
func (w diagnosisTest) get(addr, path string, header ...string) (status int, body string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-Shard-Key", "alice")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// run runs one command at a node.
func (w diagnosisTest) run(node *cluster.Node, args ...string) (code int, out string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), binaries(w.t).Node, append(args, "--admin", node.Admin)...)
	var b bytes.Buffer
	cmd.Stdout = &b
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), b.String()
}

// wantFinding waits until a node has this finding, and returns it. The log, the metric, the page
// and `shardway status` report the same.
func (w diagnosisTest) wantFinding(node *cluster.Node, code diagnosis.Code, text string) diagnosis.Finding {
	w.t.Helper()
	var found diagnosis.Finding
	node.AwaitStatus(w.t, fmt.Sprintf("%s: %s", code, text), func(status cluster.Status) bool {
		for _, finding := range status.Findings {
			if finding.Code == code && strings.Contains(finding.Text, text) {
				found = finding
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
	cluster.Await(w.t, "the log has the finding", func() error { // the node logs it after it reports it
		if !logged(node.Process().Output(1_000_000)) {
			return fmt.Errorf("the log of %s has no line of %s", node.ID, code)
		}
		return nil
	})
	if m, err := node.Metrics(w.t.Context()); err != nil || m.Sum("shardway_finding", `code="`+string(code)+`"`) < 1 {
		w.t.Errorf("the gauge of %s does not report %s: %v", node.ID, code, err)
	}
	if page := w.page(node); !strings.Contains(page, string(code)) || !strings.Contains(page, found.Text) {
		w.t.Errorf("the page of %s has no %s: %s", node.ID, code, found.Text)
	}
	want := map[bool]int{true: 3}[found.Severity == diagnosis.Outage]
	exit, out := w.run(node, "status")
	if line := strings.ToUpper(found.Severity.String()) + " " + found.String() + "\n"; !strings.Contains(out, line) || want == 3 && exit != 3 {
		w.t.Errorf("shardway status exits with %d and prints\n%s\nwant %d and the line\n%s", exit, out, want, line)
	}
	return found
}

// wantFindingEverywhere is wantFinding for findings that keep a node from serving. Its readiness check and its
// error responses report the same.
func (w diagnosisTest) wantFindingEverywhere(node *cluster.Node, code diagnosis.Code, text string) {
	w.t.Helper()
	finding := w.wantFinding(node, code, text)
	if status, body := w.get(node.Admin, "/readyz"); status != 503 || !strings.Contains(unescapeQuotes(body), finding.Text) {
		w.t.Errorf("/readyz of %s is %d, %s, want it to contain %q", node.ID, status, body, finding.Text)
	}
	status, body := w.get(node.Addr, "/")
	var p struct{ Finding string }
	if err := json.Unmarshal([]byte(body), &p); err != nil || status < 500 || !strings.HasPrefix(p.Finding, string(code)+": ") || !strings.HasPrefix(finding.Text, strings.TrimPrefix(p.Finding, string(code)+": ")) && !strings.Contains(p.Finding, text) {
		w.t.Errorf("a client of %s gets %d, %s, want the finding %q", node.ID, status, body, finding.Text)
	}
}

// unescapeQuotes removes the quotes of JSON.
func unescapeQuotes(s string) string { return strings.ReplaceAll(s, `\"`, `"`) }

// awaitHealthy waits until a node has no finding worse than info. Findings about a lack of CPU
// time last for up to a minute, and are ignored.
func (w diagnosisTest) awaitHealthy(nodes ...*cluster.Node) {
	w.t.Helper()
	for _, node := range nodes {
		node.AwaitStatus(w.t, "all is well", func(status cluster.Status) bool {
			return diagnosis.Worst(slices.DeleteFunc(status.Findings, func(finding diagnosis.Finding) bool {
				return finding.Code == diagnosis.ClockJump || finding.Code == diagnosis.DiskSlow
			})) <= diagnosis.Info
		})
	}
}

// TestEveryStateIsReportedConsistently takes a cluster through all kinds of problems. In
// each state, status and its exit code, readiness, error responses, the log and the
// metric agree.
func TestEveryStateIsReportedConsistently(t *testing.T) {
	t.Parallel() // it waits for elections and checks most of the time
	w := diagnosisTest{t, cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Flags: []string{"--queue-wait", "300ms", "--queue-requests", "2", "--health-interval", "100ms"}})}
	a, b, c := w.c.Prepare(t, "--bootstrap-expect", "3"), w.c.Prepare(t, "--bootstrap-expect", "3"), w.c.Prepare(t, "--bootstrap-expect", "3")
	w.c.AddJoinFlags()
	lost := w.c.Prepare(t, "--join", a.App.Addr, "--join", c.Gossip)
	w.checkBootstrap(a, b, c, lost)
	w.checkVoters(a, b, c)
	w.checkApps(a, b, c)
	w.checkOperatorRequests(a, c)
	if code, out := w.run(a, "doctor"); code != 0 || !strings.Contains(out, "c     ") || strings.Contains(out, "unreachable") {
		t.Errorf("doctor ends with %d:\n%s", code, out)
	}
	w.checkExtraNode(a, lost)
}

// checkBootstrap starts the nodes one after the other.
func (w diagnosisTest) checkBootstrap(a, b, c, lost *cluster.Node) {
	_, port, err := net.SplitHostPort(lost.Admin)
	if err != nil {
		w.t.Fatal(err)
	}
	lost.Start(w.t, "--admin", ":"+port, "--insecure")
	a.Start(w.t)
	b.Start(w.t)
	w.wantFindingEverywhere(a, diagnosis.Bootstrapping, "2 of the 3 nodes that must start the cluster are here (a and b)")
	w.wantFinding(lost, diagnosis.NoPeers, a.App.Addr+" (it is an HTTP port and not a gossip port: name that of the node")
	w.wantFindingEverywhere(lost, diagnosis.NoPeers, c.Gossip+" (connection refused)")
	w.wantFinding(lost, diagnosis.Insecure, "can change the cluster")
	if _, body := w.get(lost.Addr, "/"); strings.Contains(body, c.Gossip) {
		w.t.Errorf("error responses contain addresses: %s", body)
	}
	lost.Kill(w.t)
	c.Start(w.t)
	w.c.AwaitServedBy(w.t, a, b, c)
	w.awaitHealthy(a, b, c)
}

// checkVoters removes the voters, and brings them back.
func (w diagnosisTest) checkVoters(a, b, c *cluster.Node) {
	c.Kill(w.t)
	w.wantFinding(a, diagnosis.NoFaultTolerance, "2 of 3 voters are present (a and b) and 2 are required: the loss of one more stops the cluster; c is missing")
	b.Kill(w.t)
	w.wantFindingEverywhere(a, diagnosis.NoQuorum, "1 of 3 voters is present and 2 are required, so there is no leader: b and c are missing")
	w.wantFinding(a, diagnosis.Unavailable, fmt.Sprintf("no node serves any of the %d shards", shards))
	w.wantFinding(a, diagnosis.NoLease, "node a has no lease")
	w.fillQueue(a)
	w.wantFinding(a, diagnosis.QueueFull, " refused, 0 waiting")
	if status, err := a.Status(w.t.Context()); err != nil || status.State == "operational" || status.Shards.Unavailable != shards {
		w.t.Errorf("%+v, %v", status, err)
	}
	if _, out := w.run(a, "locate", "alice"); !strings.Contains(out, "unavailable: this node knows no leader") {
		w.t.Errorf("locate prints\n%s", out)
	}
	if _, out := w.run(a, "shards"); !strings.Contains(out, "unavailable") || strings.Contains(out, " owned ") {
		w.t.Errorf("shards prints\n%s", out)
	}
	b.Start(w.t)
	c.Start(w.t)
	w.c.AwaitServedBy(w.t, a, b, c)
	w.awaitHealthy(a, b, c)
}

// fillQueue sends more requests than the queue holds, until they are queued.
func (w diagnosisTest) fillQueue(node *cluster.Node) {
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { w.get(node.Addr, "/") })
	}
	all.Wait()
}

// checkApps ends one app and then all apps.
func (w diagnosisTest) checkApps(a, b, c *cluster.Node) {
	b.App.Kill(w.t)
	w.wantFinding(a, diagnosis.AppUnhealthy, "the app of node b does not answer")
	w.wantFinding(b, diagnosis.AppUnhealthy, "connection refused")
	w.wantFinding(b, diagnosis.Joining, "node b is not in the shard map yet")
	a.App.Kill(w.t)
	c.App.Kill(w.t)
	w.wantFindingEverywhere(a, diagnosis.NoHealthyApp, "no node has an app that responds: a")
	for _, n := range []*cluster.Node{a, b, c} {
		n.App.Start(w.t)
	}
	w.c.AwaitServedBy(w.t, a, b, c)
	w.awaitHealthy(a, b, c)
}

// checkOperatorRequests sends requests of operators.
func (w diagnosisTest) checkOperatorRequests(a, c *cluster.Node) {
	a.PerformAction(w.t, "pause", url.Values{"for": {"30m"}})
	w.wantFinding(a, diagnosis.Paused, "planned moves of shards are paused for 30m")
	a.PerformAction(w.t, "resume", nil)
	a.PerformAction(w.t, "cordon", url.Values{"node": {c.ID}})
	w.wantFinding(a, diagnosis.Cordoned, "c is cordoned")
	a.PerformAction(w.t, "uncordon", url.Values{"node": {c.ID}})
	a.PerformAction(w.t, "drain", url.Values{"node": {c.ID}})
	w.wantFinding(a, diagnosis.Draining, "c is drained, and owns nothing")
	a.PerformAction(w.t, "uncordon", url.Values{"node": {c.ID}})
	a.PerformAction(w.t, "quarantine", url.Values{"shard": {"1"}, "hash": {"0123456789abcdef"}})
	w.wantFinding(a, diagnosis.Quarantined, "1 key is in quarantine")
}

// checkExtraNode adds a node without an app, with a certificate that expires soon, and with more
// data to announce than fits.
func (w diagnosisTest) checkExtraNode(a, d *cluster.Node) {
	cert := filepath.Join(w.c.Dir(), "guest.pem")
	newAuthority(w.t, "guests").issue(w.t, cert, d.ID) // valid for an hour
	label := strings.Repeat("m", 63)
	d.Start(w.t, "--upstream", "", "--join", a.Gossip, "--tls-cert", cert, "--tls-key", cert,
		"--zone", strings.Repeat("z", 64), "--app-version", strings.Repeat("v", 45), "--endpoint", "metrics="+label+"."+label+".example:9100")
	w.wantFinding(d, diagnosis.NoApp, "node d is a gateway, because --upstream is missing: it owns nothing, and forwards to the others")
	w.wantFinding(d, diagnosis.TagsNearlyFull, "the gossip tags of node d use ")
	w.wantFinding(d, diagnosis.CertificateExpiring, "the certificate of node d for the app port expires on ")
}
