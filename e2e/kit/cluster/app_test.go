//go:build linux

package cluster

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// apps returns a cluster without nodes: clients connect to the apps directly, with the
// headers of a node.
func apps(t *testing.T, n int) *Cluster {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "shardway/e2e/kit/testapp").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	c := New(t, Options{Binaries: Binaries{App: filepath.Join(dir, "testapp")}})
	for range n {
		c.Prepare(t)
	}
	for _, node := range c.nodes {
		node.Addr = node.App.Addr
	}
	return c
}

// as adds the headers that a node would add to a request.
func as(node *Node, req *load.Request, epoch int) {
	req.Header = map[string]string{
		"Shardway-Node": node.ID, "Shardway-Key": req.Key, "Shardway-Epoch": strconv.Itoa(epoch),
		"Shardway-Shard": strconv.Itoa(load.ShardOf(req.Key, 128)),
	}
}

func TestCheckAcceptsLoadOnApps(t *testing.T) {
	c := apps(t, 1)
	node := c.Node("a")
	traffic := c.Load(t, c.Nodes(), Traffic{Rate: 500, ModifyRequest: func(_ int, req *load.Request) { as(node, req, 5) }})
	traffic.AwaitStarted(t, 300)
	report := traffic.Finish(t)
	if report.Requests < 300 || report.Answered != report.Requests || report.Runs != report.Requests || report.Shards < 100 || report.Handovers != 0 {
		t.Errorf("report = %v", report)
	}
	// Checked responses are known: a second Check covers only new ones.
	if report := c.Check(t); report.Requests != 0 || report.Runs == 0 {
		t.Errorf("second report = %v", report)
	}
}

// The test has the one overlap that is outside the guarantee, from real processes to the
// report.
func TestOverlapAtPauseIsCountedSeparately(t *testing.T) {
	c := apps(t, 2)
	a, b := c.Node("a"), c.Node("b")
	hang := load.Request{Key: "k", Header: map[string]string{}}
	as(a, &hang, 5)
	hang.Header["App-Hang"] = "gate"
	first := c.SendAsync(t, a, hang)
	a.App.AwaitHanging(t, "gate", 1)
	c.beginFault(a, history.Paused)
	next := load.Request{Key: "k"}
	as(b, &next, 9)
	if got := c.SendRequest(t, b, next); !got.OK() || got.App != "b" {
		t.Fatalf("answer = %+v", got)
	}
	if !first.Pending() {
		t.Fatal("the first request does not hang")
	}
	a.App.Release(t, "gate")
	if got := first.Response(t); !got.OK() || got.App != "a" {
		t.Fatalf("answer = %+v", got)
	}
	observed := history.History{Runs: c.AwaitRuns(t), Faults: c.Faults()}
	rules := c.Rules()
	rules.OtherRequests = map[string]bool{"ask1": false, "ask2": false}
	if report := history.Check(observed, rules); report.Count(history.TwoOwners) != 1 || len(report.Violations) != 1 {
		t.Errorf("no node waited for dead-after: %v", report.Violations)
	}
	c.opts.Flags = []string{"--lease", "1ms", "--dead-after", "1ms"}
	if report := c.Check(t); report.PauseOverlaps != 1 {
		t.Errorf("report = %v", report)
	}
	c.faults = nil
	report := history.Check(history.History{Runs: c.AwaitRuns(t)}, history.Rules{OtherRequests: map[string]bool{"ask1": false, "ask2": false}})
	if report.Count(history.TwoOwners) != 1 || len(report.Violations) != 1 {
		t.Errorf("without the stop: %v", report.Violations)
	}
}

func TestKilledAppLeavesItsRecords(t *testing.T) {
	c := apps(t, 1)
	node := c.Node("a")
	req := load.Request{ID: "x", Key: "k"}
	as(node, &req, 5)
	req.Header["App-Hang"] = "gate"
	asking := c.SendAsync(t, node, req)
	node.App.AwaitHanging(t, "gate", 1)
	if got := node.App.Executions(t, "x"); got != 1 {
		t.Errorf("%d executions", got)
	}
	node.App.Kill(t)
	if resp := asking.Response(t); resp.Status != 0 {
		t.Errorf("answer of a dead app = %+v", resp)
	}
	node.App.Start(t)
	delete(req.Header, "App-Hang")
	if resp := c.SendRequest(t, node, req); !resp.OK() {
		t.Errorf("answer of the new app = %+v", resp)
	}
	runs := c.AwaitRuns(t)
	if len(runs) != 2 || runs[0].End == 0 || !runs[0].Aborted || runs[1].End == 0 || runs[1].Aborted {
		t.Errorf("runs = %+v", runs)
	}
	node.App.Signal(t, syscall.SIGTERM)
	if code, err := node.App.processes[1].process.Wait(AwaitTimeout); code != 0 || err != nil {
		t.Errorf("SIGTERM: exit code %d, %v", code, err)
	}
}
