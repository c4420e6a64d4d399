package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"shardway/ack"
	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/diagnosis"
	"shardway/internal/cli"
)

// cluster is a fake cluster of two nodes with four shards.
type cluster struct {
	done chan api.Action
}

func (c *cluster) Ready() error { return nil }

func (c *cluster) Idle(string) string { return "" }

func (c *cluster) Status() api.Status {
	return api.Status{
		Node: "a", Boot: 3, Cluster: "c1", Version: "1", State: "operational", Role: "follower", Leader: "b", Term: 7,
		Epoch: 12, Proposed: 12, LeaseMS: 412, UptimeS: 182,
		Shards:   api.ShardCounts{Total: 4, Owned: 2},
		Queue:    api.QueueCounts{Queued: 1, Bytes: 20},
		Sockets:  api.SocketCounts{App: 4, Attached: 3, Detached: 1, Streams: 2},
		Findings: []diagnosis.Finding{{Code: diagnosis.EvenVoters, Severity: diagnosis.Warning, Text: "two voters (a and b\x1b): the loss of either stops the cluster", Remedy: "add a node"}},
		Nodes: []api.Node{
			{ID: "a", State: "active", Role: "follower", Voter: true, Weight: 1, Shards: 2, App: "healthy", LastHeartbeatMS: 40, Endpoints: map[string]string{"http": "10.0.0.1:8080"}},
			{ID: "b\x1b[2J", State: "active", Role: "leader", Voter: true, Weight: 1, Zone: "z", Region: "eu", Roles: []string{"app", "db"}, Meta: map[string]string{"rack": "r\x1b7"}, Version: "1.2.0", AppVersion: "2.1", Shards: 2, App: "healthy", LastHeartbeatMS: -1},
		},
	}
}

func (c *cluster) Shards() api.ShardList {
	return api.ShardList{Epoch: 12, Proposed: 12, Total: 4, Shards: []api.Shard{
		{Shard: 0, State: "owned", Owner: "a", Epoch: 9},
		{Shard: 1, State: "owned", Owner: "a", Epoch: 9},
		{Shard: 2, State: "moving", Owner: "b", Epoch: 9, To: "a", Previous: "a", Released: true},
		{Shard: 3, State: "owned", Owner: "b", Epoch: 12},
	}}
}

func (c *cluster) Moves(shard uint32) []api.Move {
	if shard != 2 {
		return nil
	}
	return []api.Move{{Epoch: 5, Shard: 2, To: "a", Reason: "join"}, {Epoch: 9, Shard: 2, From: "a", To: "b", Reason: "crashed"}}
}

func (c *cluster) Sockets(context.Context) api.SocketList {
	return api.SocketList{
		Shards: []api.ShardSockets{{Shard: 1, Attached: 1}, {Shard: 3, Attached: 3, Detached: 1, Plain: 2}},
		Nodes:  []api.NodeSockets{{Node: "a", Attached: 4, Detached: 1}, {Node: "c\x1b", App: 6}}, Unresponsive: []string{"b"},
	}
}

func (c *cluster) BreakSockets(_ context.Context, b api.SocketBreak, _ string) api.BrokenSockets {
	if b.Shard != nil && *b.Shard != 3 {
		return api.BrokenSockets{Unresponsive: []string{"b"}}
	}
	return api.BrokenSockets{Sockets: 3, Nodes: map[string]int{"a": 2, "c": 1}, Unresponsive: []string{"b"}}
}

func (c *cluster) Hot(context.Context) api.HotList {
	return api.HotList{
		Shards: []api.HotShard{{Shard: 1, Node: "a", Requests: 12.5, Busy: 0.5, Bytes: 2000, Sockets: 3}, {Shard: 2, Node: "b", Instance: 2, Requests: 1}},
		Keys:   []api.HotKey{{Shard: 1, Node: "a", Instance: 4, Hash: "0123456789abcdef", Requests: 12.5}}, Unresponsive: []string{"b"},
	}
}

func (c *cluster) Endpoints() []api.Endpoint {
	return []api.Endpoint{{Node: "a", Kind: "node", Name: "grpc", Addr: "10.0.0.1:9"}, {Node: "a", Kind: "node", Name: "http", Addr: "10.0.0.1:8080"}}
}

func (c *cluster) Map() api.Map {
	return api.Map{Epoch: 12, Shards: 4, Nodes: []api.MapNode{{ID: "a", HTTP: "10.0.0.1:8080"}}, Owners: []int{0, 0, 0, 0}}
}

func (c *cluster) MapWithStandbys() api.Map { return c.Map() }

func (c *cluster) ShardStandbys(shard uint32) *api.ShardStandbys {
	if shard > 2 {
		return nil
	}
	return &api.ShardStandbys{Standbys: []api.MapNode{{ID: "b", HTTP: "10.0.0.2:8080"}, {ID: "c"}}, NotStandbys: []api.NotStandby{{Node: "d\x1b", Reason: "draining"}}}
}

// Backup returns a valid backup of a cluster without a map.
func (c *cluster) Backup() ([]byte, error) {
	s, _, err := ack.NewState().Apply(7, 1, ack.EncodeBootstrap("c1", 4, ack.DefaultTiming()))
	if err != nil {
		return nil, err
	}
	return s.Backup()
}

func (c *cluster) WaitMap(context.Context, uint64) {}

func (c *cluster) Do(_ context.Context, a api.Action) error {
	if a.Node == "ghost" {
		return fmt.Errorf("%w: ghost", api.ErrUnknownNode)
	}
	c.done <- a
	return nil
}

// serve starts the admin port of a fake node and returns its address.
func serve(t *testing.T, c *cluster) string {
	t.Helper()
	return serveCluster(t, c)
}

func serveCluster(t *testing.T, c api.Cluster) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.New(admin.Options{API: apitest.SetOf(c)}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// run runs one command line, split at spaces. It returns the exit code and both outputs.
func run(t *testing.T, line string, environ ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.Run(t.Context(), strings.Fields(line), environ, &o, &e)
	return code, o.String(), e.String()
}

// rows splits a table into its cells.
func rows(out string) [][]string {
	var all [][]string
	for line := range strings.Lines(out) {
		all = append(all, strings.Fields(line))
	}
	return all
}

func TestTablesForPeople(t *testing.T) {
	addr := serve(t, &cluster{})
	tests := []struct {
		line string
		want []string // lines that must be present, with repeated spaces removed
	}{
		{"status", []string{
			"node a (boot 3, follower)", "leader b (term 7)", "shards 2 of 4 here, 0 moving, 0 orphaned, 0 unavailable", "lease for 412ms", "websockets 4 at the app; of clients here 4 resumable, 1 of them detached, and 2 event streams", "up 3m2s",
			"a active follower yes 2 1 - healthy - 40ms ago 10.0.0.1:8080", "WARNING even-voters: two voters (a and b?): the loss of either stops the cluster; add a node",
		}},
		{"nodes", []string{"NODE STATE ROLE VOTES SHARDS WEIGHT ZONE APP APP-VERSION HEARD HTTP", "b?[2J active leader yes 2 1 z healthy 2.1 - -", "NODE VERSION REGION ROLES META", "a - - - -", "b?[2J 1.2.0 eu app,db rack=r?7"}},
		{"shards", []string{"OWNER STATE TO EPOCH COUNT SHARDS", "a owned - 9 2 0-1", "b moving a 9 1 2", "b owned - 12 1 3"}},
		{"websockets --limit 1", []string{
			"NODE ATTACHED DETACHED AT-APP", "a 4 1 0", "c? 0 0 6", "", "SHARD ATTACHED DETACHED PLAIN", "3 3 1 2", "1 more shards have WebSockets: --limit N shows them", "", "no response from b",
		}},
		{"websockets move-test --key alice --gap", []string{"2 upstream connections of clients at a were cut", "1 upstream connections of clients at c were cut", "", "no response from b"}},
		{"websockets move-test --shard 3", []string{"2 upstream connections of clients at a are handed over", "1 upstream connections of clients at c are handed over"}},
		{"hot --limit 1", []string{
			"SHARD NODE REQUESTS/S BUSY KB/S WEBSOCKETS", "1 a 12.5 0.50 2.0 3", "", "KEY-HASH SHARD NODE REQUESTS/S KEY", "0123456789abcdef 1 a/4 12.5 -", "", "no response from b",
		}},
		{"shards 2", []string{"SHARD OWNER STATE TO EPOCH PREVIOUS RELEASED", "2 b moving a 9 a yes", "", "EPOCH FROM TO REASON", "5 - a join", "9 a b crashed"}},
		{"shards 3", []string{"SHARD OWNER STATE TO EPOCH PREVIOUS RELEASED", "3 b owned - 12 - -", "", "the node has no record of a move"}},
		{"shards --node=a", []string{"a owned - 9 2 0-1", "b moving a 9 1 2"}},
		{"endpoints --name http", []string{"NODE KIND NAME ADDRESS", "a node http 10.0.0.1:8080"}},
		{"locate alice", []string{"KEY SHARD OWNER ENDPOINT EPOCH", "NODE STANDBY ENDPOINT", "b 1 10.0.0.2:8080", "c 2 -", "d? no: draining -"}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			code, out, errOut := run(t, tt.line+" --admin "+addr)
			if code != 0 || errOut != "" {
				t.Fatalf("exit %d: %s", code, errOut)
			}
			var lines []string
			for _, r := range rows(out) {
				lines = append(lines, strings.Join(r, " "))
			}
			for _, want := range tt.want {
				if !slices.Contains(lines, want) {
					t.Errorf("no line %q in\n%s", want, out)
				}
			}
		})
	}
}

func TestEndpointsOfOtherNamesAreLeftOut(t *testing.T) {
	_, out, _ := run(t, "endpoints --name http", "SHARDWAY_ADMIN="+serve(t, &cluster{}))
	if strings.Contains(out, "grpc") || !strings.Contains(out, "10.0.0.1:8080") {
		t.Errorf("endpoints --name http wrote\n%s", out)
	}
}

func TestJSONIsWhatTheNodeAnswers(t *testing.T) {
	addr := serve(t, &cluster{done: make(chan api.Action, 2)})
	for _, line := range []string{"status", "nodes", "shards", "endpoints", "locate alice", "step-down", "remove b", "version", "check"} {
		line += " --json"
		if !strings.HasPrefix(line, "version") && !strings.HasPrefix(line, "check") {
			line += " --admin " + addr
		}
		code, out, errOut := run(t, line)
		var v map[string]any
		if err := json.Unmarshal([]byte(out), &v); code != 0 || errOut != "" || err != nil || len(v) == 0 {
			t.Errorf("%s: exit %d, %v, %s\n%s", line, code, err, errOut, out)
		}
	}
	_, out, _ := run(t, "status --json --admin "+addr)
	var st api.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil || st.Term != 7 || len(st.Nodes) != 2 || st.Nodes[0].Endpoints["http"] != "10.0.0.1:8080" {
		t.Errorf("status --json = %+v, %v", st, err)
	}
}

func TestActionsReachTheNode(t *testing.T) {
	c := &cluster{done: make(chan api.Action, 1)}
	addr := serve(t, c)
	for line, want := range map[string]api.Action{
		"step-down":        {Verb: api.StepDown},
		"step-down --to b": {Verb: api.StepDown, To: "b"},
		"remove b":         {Verb: api.Remove, Node: "b"},
		"remove --force b": {Verb: api.Remove, Node: "b", Force: true},
	} {
		code, _, errOut := run(t, line+" --admin="+addr)
		if code != 0 {
			t.Errorf("%s: exit %d: %s", line, code, errOut)
			continue
		}
		got := <-c.done
		got.By = ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s did %+v, want %+v", line, got, want)
		}
	}
}

func TestFailurePrintsOneLineAndExitsWith1(t *testing.T) {
	addr := serve(t, &cluster{})
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"status --admin " + nobody:       "nothing listens on " + nobody,
		"remove ghost --admin " + addr:   "ghost",
		"endpoints --admin=" + nobody:    "nothing listens",
		"locate alice --admin=" + nobody: "nothing listens",

		"websockets --shard 99 --admin=" + addr:           "shard = 99 does not exist: the cluster has 4, from 0 to 3",
		"websockets move-test --shard 99 --admin=" + addr: "give a number from 0 to 3",
		"websockets move-test --shard 2 --admin=" + addr:  "no resumable WebSocket of shard 2 has a connection to its app; b did not respond",
	} {
		code, out, errOut := run(t, line)
		if code != 1 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.HasPrefix(errOut, "shardway: ") || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d\nout %s\nerr %s", line, code, out, errOut)
		}
	}
}

func TestWrongUsageIsTwo(t *testing.T) {
	for line, want := range map[string]string{
		"":               "expected one of",
		"bogus":          "bogus",
		"locate":         "<key>",
		"status --bogus": "--bogus",
		"status --jsn":   "--json",
		"remove --force": "<node>",
		// These errors are not found by the parser of the command line, but are independent of the
		// node.
		"status --admin nowhere":               `--admin "nowhere" is not an address`,
		"shards --admin http://x/y":            "is not an address",
		"shards x":                             `"x" is not a shard number`,
		"cordon":                               "cordon takes a node or --app-version",
		"websockets --gap":                     "--all, --key, --gap and --reason need move-test",
		"websockets --key alice":               "--all, --key, --gap and --reason need move-test",
		"websockets brake":                     `must be one of "show","move-test"`,
		"websockets move-test":                 "move-test needs --all, --key or --shard",
		"websockets move-test --all --shard 1": "give one of --all, --key and --shard",

		"weight b -1":                "-1 is negative: give a number of 0 or more; shardway weight --help",
		"weight b 1.5":               "weight 1.5 of node b is not valid: give a number from 1 to 1000, or 0",
		"drain --idle-first xx":      `--idle-first: "xx" is not a duration: give a value such as 30s or 5m; shardway drain --help`,
		"drain b --wait --timeout 5": `--timeout: "5" is not a duration`,
		"wait --timeout x":           `--timeout: "x" is not a duration`,

		"websockets move-test --key alice --shard 3": "give --key or --shard, not both",
	} {
		code, out, errOut := run(t, line)
		if code != 2 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit %d\nout %s\nerr %s", line, code, out, errOut)
		}
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	for line, want := range map[string]string{
		"--help":        "locate",
		"--version":     "shardway 0.",
		"status --help": "--admin",
		"check --help":  "--drain-timeout DURATION",
		"check -h":      "SHARDWAY_DRAIN_TIMEOUT",
	} {
		code, out, errOut := run(t, line)
		if code != 0 || errOut != "" || !strings.Contains(out, want) {
			t.Errorf("%q: exit %d, %s\n%s", line, code, errOut, out)
		}
	}
}

func TestCheckShowsWhereValuesComeFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("lease: 800ms\nroutes:\n  /api: host\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, "check --shards=16 --config "+file, "SHARDWAY_WEIGHT=3")
	if code != 0 || errOut != "" || strings.Contains(out, " default\n") || !strings.Contains(out, " more have their defaults: --all shows them\n") {
		t.Fatalf("exit %d: %s\n%s", code, errOut, out)
	}
	code, out, errOut = run(t, "check --all --shards=16 --config "+file, "SHARDWAY_WEIGHT=3")
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	var lines []string
	for _, r := range rows(out) {
		lines = append(lines, strings.Join(r, " "))
	}
	for _, want := range []string{
		"shards 16 flag", "weight 3 SHARDWAY_WEIGHT", "lease 800ms " + file + ":1", "routes /api host " + file + ":2", "peer 127.0.0.1:7947 default",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
	if !strings.Contains(out, "heartbeat ≤ lease / 4") || !strings.Contains(out, "silent after") {
		t.Errorf("the timings are not explained:\n%s", out)
	}
	if !strings.HasSuffix(out, "\n\nok: the configuration is valid\n") {
		t.Errorf("the last line does not say that all is well:\n%s", out)
	}
}

func TestCheckReportsEveryProblem(t *testing.T) {
	code, out, errOut := run(t, "check --shards=0 --gossip=:7946 --bogus")
	if code != 2 || errOut != "" || strings.Count(out, "\n") != 3 {
		t.Errorf("exit %d, %s\n%s", code, errOut, out)
	}
	code, out, _ = run(t, "check --lease=10s")
	if code != 2 || !strings.Contains(out, "22s < 2.5s") {
		t.Errorf("a broken bound is not explained: exit %d\n%s", code, out)
	}
	code, out, _ = run(t, "check --json --shards=0")
	var v struct {
		OK       bool
		Problems []struct{ Key, Remedy string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 2 || v.OK || len(v.Problems) != 1 || v.Problems[0].Key != "shards" {
		t.Errorf("check --json: exit %d, %v\n%s", code, err, out)
	}
}

// The exit codes are defined in one table. The help and docs/reference/cli.md contain these lines.
func TestExitCodesMatchTheTable(t *testing.T) {
	addr, down := serve(t, &cluster{}), serveCluster(t, comes(api.Status{Findings: []diagnosis.Finding{{Code: diagnosis.NoQuorum, Severity: diagnosis.Outage}}}))
	meant := map[int][]string{
		0: {"status --admin=" + addr, "version", "--help", "check"},
		1: {"status --admin=127.0.0.1:1", "remove ghost --admin=" + addr, "backup /nonexistent/b --admin=" + addr},
		2: {"no-such-command", "status --no-such-flag", "drain a --local", "check --shards=0", "run --shards=0"},
		3: {"status --admin=" + down, "status --json --admin=" + down},
	}
	_, help, _ := run(t, "--help")
	help = strings.Join(strings.Fields(help), " ")
	page, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for want, lines := range meant {
		_, said, found := strings.Cut(help, fmt.Sprintf(" %d: ", want))
		said, _, _ = strings.Cut(strings.ReplaceAll(said, ".", ";"), ";")
		if !found || !strings.Contains(string(page), fmt.Sprintf("| %d | %s |", want, strings.TrimSpace(said))) {
			t.Errorf("help says of exit code %d %q, and docs/reference/cli.md has no line of that", want, said)
		}
		for _, line := range lines {
			if code, out, errOut := run(t, line); code != want {
				t.Errorf("%s: exit %d, want %d: %s%s", line, code, want, out, errOut)
			}
		}
	}
}
