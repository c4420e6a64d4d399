package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/admin/api"
)

func drained(left ...api.DrainState) *policyCluster {
	return &policyCluster{cluster: &cluster{done: make(chan api.Action, 1)}, left: left}
}

// The output has one line for each change, not for each poll.
func TestDrainShowsWhatIsLeftUntilNothingIs(t *testing.T) {
	two := api.DrainState{Requested: true, Shards: 2, Requests: 7, Sockets: 1}
	c := drained(two, two, api.DrainState{Requested: true, Shards: 1, Requests: -1, Sockets: -1}, api.DrainState{Requested: true, Sockets: 1})
	code, out, errOut := run(t, "drain a --wait --admin="+serveCluster(t, c))
	if want := "2 shards, 7 requests, 1 WebSocket left\n1 shard left\n0 shards, 0 requests, 1 WebSocket left\nnode a owns nothing\n"; code != 0 || out != want {
		t.Errorf("exit %d, %s, wrote %q, want %q", code, errOut, out, want)
	}
	code, out, errOut = run(t, "drain a --wait --json --admin="+serveCluster(t, drained(two)))
	if code != 0 || !strings.Contains(out, `"done": true`) || strings.Contains(out, "left") {
		t.Errorf("as JSON: exit %d, %s, wrote %q", code, errOut, out)
	}
}

// A drain without a node argument drains the node that is asked. Before the command waits, it prints
// which node this is and how to undo the drain.
func TestDrainReportsNodeAndUndoCommand(t *testing.T) {
	const begun = "node a, which received the command, is draining until `shardway uncordon a`; `shardway nodes` shows its progress\n"
	two := api.DrainState{Requested: true, Shards: 2}
	for line, want := range map[string]string{
		"drain":               begun,
		"drain --wait":        begun + "2 shards, 0 requests, 0 WebSockets left\nnode a owns nothing\n",
		"drain b":             "node b is draining until `shardway uncordon b`; `shardway nodes` shows its progress\n",
		"drain --json":        "{\n  \"action\": \"drain\",\n  \"node\": \"a\",\n  \"done\": true\n}\n",
		"drain --wait --json": "{\n  \"action\": \"drain\",\n  \"node\": \"a\",\n  \"done\": true\n}\n",
	} {
		if code, out, errOut := run(t, line+" --admin="+serveCluster(t, drained(two))); code != 0 || out != want {
			t.Errorf("%s: exit %d, %s, wrote %q, want %q", line, code, errOut, out, want)
		}
	}
}

// A drain is in force once the leader has accepted it. The log of the node that is asked may be
// behind, so its first responses do not mean that the drain was cancelled.
func TestDrainThatANodeDoesNotKnowYetIsNotTakenBack(t *testing.T) {
	late := api.DrainState{Shards: 2}
	if code, _, errOut := run(t, "drain a --wait --admin="+serveCluster(t, drained(late, late))); code != 0 {
		t.Errorf("known a moment later: exit %d, %s", code, errOut)
	}
	code, _, errOut := run(t, "drain a --wait --admin="+serveCluster(t, drained(late, late, late, late)))
	if code != 1 || !strings.Contains(errOut, "the drain of node a was cancelled with 2 shards, 0 requests, 0 WebSockets left") {
		t.Errorf("taken back: exit %d, %s", code, errOut)
	}
}

func TestDrainWaitsNoLongerThanItsDeadline(t *testing.T) {
	endless := make([]api.DrainState, 100_000)
	for i := range endless {
		endless[i] = api.DrainState{Requested: true, Shards: 2, Requests: 1}
	}
	code, _, errOut := run(t, "drain a --wait --timeout=50ms --admin="+serveCluster(t, drained(endless...)))
	if code != 1 || !strings.Contains(errOut, "after 50ms, 2 shards, 1 request, 0 WebSockets left at node a: the drain continues") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

func TestDrainEndsWithTheReasonForWhichShardsStay(t *testing.T) {
	staying := api.DrainState{Requested: true, Shards: 2, BlockedBy: "no other node can own them"}
	moving := api.DrainState{Requested: true, Shards: 2}
	code, _, errOut := run(t, "drain a --wait --admin="+serveCluster(t, drained(staying, staying, staying)))
	if code != 1 || !strings.Contains(errOut, "2 shards, 0 requests, 0 WebSockets left at node a, and they do not move: no other node can own them") {
		t.Errorf("a reason that stands: exit %d, %s", code, errOut)
	}
	if code, _, errOut := run(t, "drain a --wait --admin="+serveCluster(t, drained(staying, staying, moving, staying, staying))); code != 0 {
		t.Errorf("a reason that is over a moment later: exit %d, %s", code, errOut)
	}
}

func TestDrainTimeoutReportsRemainingWork(t *testing.T) {
	endless := make([]api.DrainState, 100_000)
	for i := range endless {
		endless[i] = api.DrainState{Requested: true, Shards: 2, WaitsFor: "epoch 9 is not acknowledged by node b"}
	}
	code, _, errOut := run(t, "drain a --wait --timeout=50ms --admin="+serveCluster(t, drained(endless...)))
	if code != 1 || !strings.Contains(errOut, "after 50ms, 2 shards, 0 requests, 0 WebSockets left at node a: the drain continues (epoch 9 is not acknowledged by node b)") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// The --idle-first duration reaches the node. Once, the client did not send it, and all shards moved
// at once.
func TestIdleFirstDrainReachesNode(t *testing.T) {
	c := drained()
	code, _, errOut := run(t, "drain a --idle-first=2m --admin="+serveCluster(t, c))
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	if got := <-c.done; got.Verb != api.Drain || got.Node != "a" || got.IdleFirst != "2m0s" {
		t.Errorf("it did %+v, want a gentle drain of a within 2m0s", got)
	}
}

func TestDrainErrorsNameMissingArgument(t *testing.T) {
	for line, want := range map[string]string{
		"drain a --local":                   "name that with --data DIR, and neither a node nor --admin",
		"drain --local --admin=:1":          "name that with --data DIR, and neither a node nor --admin",
		"drain --local --force":             "--local refuses nothing, it warns: leave out --force",
		"drain a --data=/tmp":               "--data goes with --local",
		"drain a --timeout=1s":              "--timeout bounds --wait: give both",
		"drain a --wait --timeout=-1s":      "--timeout -1s is negative",
		"drain a --idle-first=-1s":          "--idle-first -1s is negative: give a value such as 30s",
		"drain --local --idle-first=1m":     "--idle-first is asked of the cluster, --local of a process",
		"drain --local --data=/nonexistent": `no node runs on the data directory "/nonexistent": name the one of the node with --data DIR`,
	} {
		exit := 2
		if strings.Contains(line, "nonexistent") {
			exit = 1 // the command line itself is valid
		}
		if code, _, errOut := run(t, line); code != exit || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, want %q", line, code, errOut, want)
		}
	}
}

// With a single node, no other node takes over its shards. A local drain with --wait then ends with an
// error. Otherwise, a script that waits for it before it stops the node would wait until the process
// is killed.
func TestLocalDrainNeedsNoTokenAndEndsIfNoNodeTakesTheShards(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, app(t), "--admin-write-token-file="+tokens)
	n.get(t, "http://"+n.listen+"/", http.StatusOK)
	data := ""
	for _, arg := range n.args {
		if d, ok := strings.CutPrefix(arg, "--data="); ok {
			data = d
		}
	}
	code, out, errOut := run(t, "drain --local", "SHARDWAY_DATA="+data)
	if code != 0 || out != "node solo is draining until its process ends\n" || !strings.Contains(errOut, `warning: without node "solo", 0 of 1 voters remain and 1 are required`) {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	n.get(t, "http://"+n.probes+"/readyz", http.StatusServiceUnavailable)
	code, _, errOut = run(t, "drain --local --wait --data="+data)
	if code != 1 || !strings.Contains(errOut, "16 shards, 0 requests, 0 WebSockets left at node solo, and they do not move: there is no other node") {
		t.Errorf("--wait: exit %d, %q", code, errOut)
	}
	if body := n.get(t, "http://"+n.listen+"/", http.StatusOK); body != "alice at solo" {
		t.Errorf("the app saw %q", body)
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d after being told to stop\n%s", code, n.log.String())
	}
	if _, err := os.Lstat(filepath.Join(data, "self.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket after the end: %v", err)
	}
	n.launch(t) // the request ends with the process
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d after being told to stop again\n%s", code, n.log.String())
	}
}

// A drain fails if shards left the node without being released by the app, because data that the app
// had not written is missing at the new owner.
func TestDrainFailsForUnreleasedShards(t *testing.T) {
	for why, want := range map[string]string{
		"status 500": "node a owns nothing, but 342 shards went unreleased: status 500; see the log of node a",
		"":           "node a owns nothing, but 342 shards went unreleased; see the log of node a",
	} {
		c := drained(api.DrainState{Requested: true, Shards: 2}, api.DrainState{Requested: true, Unreleased: 342, UnreleasedWhy: why})
		if code, _, errOut := run(t, "drain a --wait --admin="+serveCluster(t, c)); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("exit %d, %s, want %q", code, errOut, want)
		}
	}
}

// The terms of a drain reach the node, and invalid ones are rejected before.
func TestDrainTakesTerms(t *testing.T) {
	c := drained()
	if code, _, errOut := run(t, "drain a --safe --release-timeout 30s --admin="+serveCluster(t, c)); code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	if a := <-c.done; !a.Safe || a.ReleaseTimeout != "30s" || a.Node != "a" {
		t.Errorf("the node is asked %+v", a)
	}
	for _, line := range []string{"drain a --release-timeout 2m", "drain a --release-timeout=-1s", "drain --local --safe", "drain --local --release-timeout 1s"} {
		if code, _, errOut := run(t, line); code != 2 || !strings.Contains(errOut, "--release-timeout") {
			t.Errorf("%s: exit %d, %s", line, code, errOut)
		}
	}
}

// A drain warns of shards that the app holds. Once, it moved them without a message to the operator.
func TestDrainWarnsOfHeldShards(t *testing.T) {
	const warning = "shardway: warning: the app at node b holds 2 shards (Shardway-Hold), and this drain ends the holds after --drain-timeout; to wait for them, run: shardway drain --idle-first 1h b\n"
	for line, want := range map[string]string{
		"drain b":                        warning,
		"drain b --wait":                 warning,
		"drain b --idle-first 1h":        "",
		"drain b --idle-first 1h --wait": "",
	} {
		addr := serveCluster(t, drained(api.DrainState{Requested: true, Shards: 3, Held: 2}, api.DrainState{Requested: true, Shards: 1, Held: 1}))
		code, _, errOut := run(t, line+" --admin "+addr)
		if code != 0 || errOut != want {
			t.Errorf("%s: exit %d, %q, want %q", line, code, errOut, want)
		}
	}
}
