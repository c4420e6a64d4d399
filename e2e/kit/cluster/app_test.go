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
	for _, n := range c.nodes {
		n.Addr = n.App.Addr
	}
	return c
}

// as adds the headers that a node would add to a request.
func as(n *Node, r *load.Request, epoch int) {
	r.Header = map[string]string{
		"Shardway-Node": n.ID, "Shardway-Key": r.Key, "Shardway-Epoch": strconv.Itoa(epoch),
		"Shardway-Shard": strconv.Itoa(load.ShardOf(r.Key, 128)),
	}
}

func TestCheckAcceptsLoadOnApps(t *testing.T) {
	c := apps(t, 1)
	n := c.Node("a")
	l := c.Load(t, c.Nodes(), Traffic{Rate: 500, ModifyRequest: func(_ int, r *load.Request) { as(n, r, 5) }})
	l.AwaitStarted(t, 300)
	r := l.Finish(t)
	if r.Requests < 300 || r.Answered != r.Requests || r.Runs != r.Requests || r.Shards < 100 || r.Handovers != 0 {
		t.Errorf("report = %v", r)
	}
	// Checked responses are known: a second Check covers only new ones.
	if r := c.Check(t); r.Requests != 0 || r.Runs == 0 {
		t.Errorf("second report = %v", r)
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
	h := history.History{Runs: c.AwaitRuns(t), Faults: c.Faults()}
	rules := c.Rules()
	rules.OtherRequests = map[string]bool{"ask1": false, "ask2": false}
	if r := history.Check(h, rules); r.Count(history.TwoOwners) != 1 || len(r.Violations) != 1 {
		t.Errorf("nobody waited for dead-after: %v", r.Violations)
	}
	c.opts.Flags = []string{"--lease", "1ms", "--dead-after", "1ms"}
	if r := c.Check(t); r.PauseOverlaps != 1 {
		t.Errorf("report = %v", r)
	}
	c.faults = nil
	r := history.Check(history.History{Runs: c.AwaitRuns(t)}, history.Rules{OtherRequests: map[string]bool{"ask1": false, "ask2": false}})
	if r.Count(history.TwoOwners) != 1 || len(r.Violations) != 1 {
		t.Errorf("without the stop: %v", r.Violations)
	}
}

func TestKilledAppLeavesItsRecords(t *testing.T) {
	c := apps(t, 1)
	n := c.Node("a")
	r := load.Request{ID: "x", Key: "k"}
	as(n, &r, 5)
	r.Header["App-Hang"] = "gate"
	asking := c.SendAsync(t, n, r)
	n.App.AwaitHanging(t, "gate", 1)
	if got := n.App.Executions(t, "x"); got != 1 {
		t.Errorf("%d executions", got)
	}
	n.App.Kill(t)
	if a := asking.Response(t); a.Status != 0 {
		t.Errorf("answer of a dead app = %+v", a)
	}
	n.App.Start(t)
	delete(r.Header, "App-Hang")
	if a := c.SendRequest(t, n, r); !a.OK() {
		t.Errorf("answer of the new app = %+v", a)
	}
	runs := c.AwaitRuns(t)
	if len(runs) != 2 || runs[0].End == 0 || !runs[0].Aborted || runs[1].End == 0 || runs[1].Aborted {
		t.Errorf("runs = %+v", runs)
	}
	n.App.Signal(t, syscall.SIGTERM)
	if code, err := n.App.processes[1].process.Wait(AwaitTimeout); code != 0 || err != nil {
		t.Errorf("SIGTERM: exit code %d, %v", code, err)
	}
}
