package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"shardway/admin/api"
	"shardway/config"
	"shardway/shardmap"
)

// policyCluster is a cluster with a policy that operators have set.
type policyCluster struct {
	*cluster
	looks   atomic.Int32
	drained []string
	reasons []api.PolicyReason
	marked  []string
	left    []api.DrainState // one for each poll; nothing after the last
}

func (c *policyCluster) Policy() api.Policy {
	return api.Policy{
		Drained: c.drained, Cordoned: []string{"d"}, Weights: map[string]uint32{"b": 3}, Pause: "30m",
		Pins:        []api.PinnedShard{{Shard: 1, Node: "b"}, {Shard: 2, Zone: "east"}, {Shard: 0, Node: "c", Fallbacks: []string{"a", "b"}}},
		Quarantined: []api.QuarantinedKey{{Shard: 2, Hash: "00000000000000aa", For: "1h", Known: true}, {Shard: 2, Hash: "00000000000000ab"}},
		Reasons:     c.reasons, MarkedFailed: c.marked,
	}
}

func (c *policyCluster) Map() api.Map {
	return api.Map{Epoch: 9, Shards: 3, Nodes: []api.MapNode{{ID: "a"}, {ID: "b"}}, Owners: []int{0, 0, 1}}
}

func (c *policyCluster) DrainState(_ context.Context, node string) (api.DrainState, error) {
	if look := int(c.looks.Add(1)); look <= len(c.left) {
		d := c.left[look-1]
		d.Node = node
		return d, nil
	}
	return api.DrainState{Node: node, Requested: true}, nil
}

func (c *policyCluster) WaitMap(context.Context, uint64) {}

func TestPolicyCommandsReachTheNode(t *testing.T) {
	c := &policyCluster{cluster: &cluster{done: make(chan api.Action, 1)}, drained: []string{"a"}}
	addr := serveCluster(t, c)
	of := func(key string) uint32 { return uint32(shardmap.ShardOf(key, 3)) }
	for line, want := range map[string]api.Action{
		"policy role app":           {Verb: api.SetRole, Role: "app"},
		"policy role --remove":      {Verb: api.ClearRole},
		"drain b":                   {Verb: api.Drain, Node: "b"},
		"drain":                     {Verb: api.Drain, Node: "a"}, // the node that is asked
		"drain b --force":           {Verb: api.Drain, Node: "b", Force: true},
		"drain a --wait":            {Verb: api.Drain, Node: "a"},
		"app-restarted b":           {Verb: api.AppRestarted, Node: "b"},
		"app-restarted":             {Verb: api.AppRestarted, Node: "a"}, // the node that is asked
		"rebalance --reason rack":   {Verb: api.Rebalance, Reason: "rack"},
		"mark-failed b":             {Verb: api.MarkFailed, Node: "b"},
		"cordon b":                  {Verb: api.Cordon, Node: "b"},
		"uncordon b":                {Verb: api.Uncordon, Node: "b"},
		"pause --for 30m":           {Verb: api.Pause, For: "30m"},
		"resume":                    {Verb: api.Resume},
		"weight b 7":                {Verb: api.Weigh, Node: "b", Weight: 7},
		"weight b 0":                {Verb: api.Weigh, Node: "b"},
		"pin 2 b":                   {Verb: api.Pin, Shard: 2, Node: "b"},
		"pin 0 zone=east":           {Verb: api.Pin, Zone: "east"},
		"pin --key alice zone=east": {Verb: api.Pin, Shard: of("alice"), Zone: "east"},
		"pin 2 b a c":               {Verb: api.Pin, Shard: 2, Node: "b", Fallbacks: []string{"a", "c"}},
		"pin --key alice b a":       {Verb: api.Pin, Shard: of("alice"), Node: "b", Fallbacks: []string{"a"}},
		"unpin 2":                   {Verb: api.Unpin, Shard: 2},
		"unpin --key alice":         {Verb: api.Unpin, Shard: of("alice")},
		"unpin --key dora":          {Verb: api.Unpin, Shard: of("dora")},
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

// Each command that changes the cluster accepts a reason.
func TestEachActionSendsItsReason(t *testing.T) {
	c := &policyCluster{cluster: &cluster{done: make(chan api.Action, 1)}, drained: []string{"a"}}
	addr := serveCluster(t, c)
	seen := map[api.Verb]bool{}
	for _, line := range []string{
		"drain b", "drain b --wait", "cordon b", "mark-failed b", "uncordon b", "pause --for 30m", "resume", "weight b 7", "pin 2 b", "unpin 2", "app-restarted b", "policy role app", "policy role --remove", "rebalance", "remove b", "step-down",
		"quarantine alice", "quarantine --lift alice", "service add chat --shards 4", "service remove chat",
	} {
		code, _, errOut := run(t, line+" --reason rack --admin="+addr)
		if code != 0 {
			t.Errorf("%s: exit %d: %s", line, code, errOut)
			continue
		}
		got := <-c.done
		seen[got.Verb] = true
		if got.Reason != "rack" {
			t.Errorf("%s sent the reason %q", line, got.Reason)
		}
	}
	for verb := api.Remove; verb <= api.RemoveService; verb++ {
		if !seen[verb] {
			t.Errorf("no command for %s was tried", verb)
		}
	}
	for line, want := range map[string]string{
		"settings":        "--reason belongs to a change",
		"websockets":      "--reason need move-test",
		"quarantine":      "--reason need a key",
		"policy --json":   "unknown flag --reason",
		"upgrade status":  "unknown flag --reason",
		"quarantine --x=": "unknown flag --x",
	} {
		if code, _, errOut := run(t, line+" --reason rack --admin="+addr); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, want %q", line, code, errOut, want)
		}
	}
	if code, _, errOut := run(t, "drain --local --reason rack"); code != 2 || !strings.Contains(errOut, "--reason is stored by the cluster") {
		t.Errorf("drain --local: exit %d, %q", code, errOut)
	}
}

// The commands that are no api.Action also send the reason.
func TestOtherChangesSendTheirReason(t *testing.T) {
	requests := make(chan string, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var arguments struct{ Reason string }
		err := json.NewDecoder(r.Body).Decode(&arguments)
		requests <- fmt.Sprint(r.Method, " ", r.URL.Path, " ", arguments.Reason, " ", err)
		w.Header().Set("Server", api.ServerName)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	for line, path := range map[string]string{
		"settings --dead-after 5s":   "/v1/settings",
		"upgrade finalize":           "/v1/upgrade",
		"rotate-secret":              "/v1/rotate-secret",
		"websockets move-test --all": "/v1/websockets",
	} {
		code, _, errOut := run(t, line+" --reason rack --admin="+server.Listener.Addr().String())
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", line, code, errOut)
		}
		if got, want := <-requests, "POST "+path+" rack <nil>"; got != want {
			t.Errorf("%s sent %q, want %q", line, got, want)
		}
	}
}

// The node of the pin is not in the list of nodes.
func TestPinWarns(t *testing.T) {
	c := &policyCluster{cluster: &cluster{done: make(chan api.Action, 9)}}
	addr := serveCluster(t, c)
	const warning = `node \"c\" is not known to this node: until it can own shards, shard 2 belongs to node \"a\"`
	if code, out, errOut := run(t, "pin 2 c a --admin="+addr); code != 0 || out != "shard 2 is pinned to c, then a\n" || !strings.HasPrefix(errOut, "shardway: warning: "+strings.ReplaceAll(warning, `\"`, `"`)) {
		t.Errorf("pin: exit %d, %q, %q", code, out, errOut)
	}
	if code, out, errOut := run(t, "pin 2 c a --json --admin="+addr); code != 0 || !strings.Contains(out, `"warning": "`+warning) || errOut != "" {
		t.Errorf("pin --json: exit %d, %q, %q", code, out, errOut)
	}
	if code, out, errOut := run(t, "pin 2 a --json --admin="+addr); code != 0 || strings.Contains(out, "warning") || errOut != "" {
		t.Errorf("pin --json: exit %d, %q, %q", code, out, errOut)
	}
}

func TestUncordonReportsItsResult(t *testing.T) {
	addr := serveCluster(t, &policyCluster{cluster: &cluster{done: make(chan api.Action, 9)}, drained: []string{"a"}, marked: []string{"e"}})
	for node, want := range map[string]string{
		"a": "node a can own shards again: its drain has ended\n",
		"d": "node d gets shards again: its cordon has ended\n",
		"e": "node e can own shards again: it is no longer marked as failed\n",
		"b": "nothing to do: node b is not drained, cordoned or marked as failed\n",
	} {
		if code, out, errOut := run(t, "uncordon "+node+" --admin="+addr); code != 0 || out != want {
			t.Errorf("uncordon %s: exit %d, %q, %s; want %q", node, code, out, errOut, want)
		}
	}
}

// selfDrained is a cluster in which node b drains without an entry in the policy.
type selfDrained struct{ *policyCluster }

func (c selfDrained) Status() api.Status {
	s := c.policyCluster.Status()
	s.Nodes = []api.Node{{ID: "b", State: "draining"}}
	return s
}

func TestUncordonNamesADrainThatItDoesNotEnd(t *testing.T) {
	addr := serveCluster(t, selfDrained{&policyCluster{cluster: &cluster{done: make(chan api.Action, 1)}}})
	want := "nothing to do: node b drains by drain --local or because it stops, and owns shards again when its process has restarted\n"
	if code, out, errOut := run(t, "uncordon b --admin="+addr); code != 0 || out != want {
		t.Errorf("exit %d, %q, %s; want %q", code, out, errOut, want)
	}
}

// The result of a command is printed as a sentence, and extra arguments are rejected before any
// action.
func TestPolicyCommandsReportTheirResult(t *testing.T) {
	c := &policyCluster{cluster: &cluster{done: make(chan api.Action, 9)}}
	addr := serveCluster(t, c)
	far := "a"
	for shardmap.ShardOf(far, 3) != 2 {
		far += "a"
	}
	for line, want := range map[string]string{
		"rebalance --reason rack": "the leader proposes a new shard map",
		"app-restarted b":         "the app of node b counts as restarted",
		"weight b 7":              "node b has weight 7",
		"weight b 0":              "node b has the weight that it was started with",
		"pin 1 zone=east":         "shard 1 is pinned to zone=east",
		"pin --key " + far + " b": "shard 2 is pinned to b",
		"unpin --key " + far:      "shard 2 is not pinned any more",
	} {
		if code, out, errOut := run(t, line+" --admin="+addr); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %q, %s; want %q", line, code, out, errOut, want)
		} else {
			<-c.done
		}
	}
	for _, line := range []string{"rebalance", "unpin 2 3", "unpin --key a 3", "pin 2", "pin 2 b zone=c", "pin 2 b,c", "policy role app --remove", "pin x b"} {
		if code, _, errOut := run(t, line+" --admin="+addr); code != 2 || len(c.done) > 0 {
			t.Errorf("%s: exit %d, %s, and %d were done", line, code, errOut, len(c.done))
		}
	}
	if code, out, errOut := run(t, "policy --json --admin="+addr); code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("policy --json: exit %d, %q, %s", code, out, errOut)
	}
}

// unasked is a cluster without a policy, or with a gentle drain.
type unasked struct {
	policyCluster
	emptying []api.GradualDrain
}

func (c *unasked) Policy() api.Policy { return api.Policy{GradualDrains: c.emptying} }

func TestEmptyPolicyIsShown(t *testing.T) {
	c := &unasked{policyCluster: policyCluster{cluster: &cluster{}}}
	addr := serveCluster(t, c)
	if _, out, _ := run(t, "policy --admin="+addr); !strings.HasPrefix(out, "no operator action") || strings.Contains(out, "pause") {
		t.Errorf("policy: %q", out)
	}
	c.emptying = []api.GradualDrain{{Node: "b", IdleFirst: "10m"}}
	if _, out, _ := run(t, "policy --admin="+addr); !strings.Contains(out, "drain idle-first 10m") || strings.Contains(out, "no operator action") {
		t.Errorf("policy: %q", out)
	}
}

// versioned is a cluster with two versions of the app.
type versioned struct{ policyCluster }

func (c *versioned) Status() api.Status {
	s := c.policyCluster.Status()
	s.Nodes = []api.Node{
		{ID: "a", State: "active", AppVersion: "1"}, {ID: "b", State: "active", AppVersion: "2"}, {ID: "c", State: "failed", AppVersion: "1"}, {ID: "d", State: "left", AppVersion: "1"},
	}
	return s
}

// An operator who replaces the nodes of one app version by those of another selects them by version,
// because there may be many.
func TestCordonTakesTheNodesOfAVersion(t *testing.T) {
	c := &versioned{policyCluster{cluster: &cluster{done: make(chan api.Action, 9)}}}
	addr := serveCluster(t, c)
	if code, out, errOut := run(t, "cordon --app-version 1 --admin="+addr); code != 0 || strings.Count(out, "\n") != 2 {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	for _, want := range []string{"a", "c"} {
		if got := <-c.done; got.Verb != api.Cordon || got.Node != want {
			t.Errorf("it did %+v, want a cordon of %s", got, want)
		}
	}
	for line, want := range map[string]string{
		"cordon": "cordon takes a node or --app-version", "cordon a --app-version 1": "cordon takes a node or --app-version",
	} {
		if code, _, errOut := run(t, line+" --admin="+addr); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %s", line, code, errOut)
		}
	}
	if code, _, errOut := run(t, "cordon --app-version 3 --admin="+addr); code != 1 || !strings.Contains(errOut, `no node has the app version "3"`) {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

func TestPolicyIsShown(t *testing.T) {
	one, two := uint32(1), uint32(2)
	c := &policyCluster{cluster: &cluster{}, drained: []string{"a"}, marked: []string{"e"}, reasons: []api.PolicyReason{
		{Action: "mark-failed", Node: "e", Reason: "hangs"},
		{Action: "drain", Node: "a", Reason: "disk"},
		{Action: "pin", Shard: &one, Reason: "cache"},
		{Action: "pause", Reason: "night work"},
		{Action: "quarantine", Shard: &two, Hash: "00000000000000ab", Reason: "loops"},
	}}
	_, out, _ := run(t, "policy --admin="+serveCluster(t, c))
	var lines []string
	for _, r := range rows(out) {
		lines = append(lines, strings.Join(r, " "))
	}
	if want := []string{"REQUEST TARGET REASON", "drain a disk", "cordon d -", "mark-failed e hangs", "weight 3 b -", "pin shard 1 b cache", "pin shard 2 zone=east -", "pin shard 0 c, then a, then b -", "quarantine key_hash 00000000000000aa of shard 2 -", "quarantine key_hash 00000000000000ab of shard 2 loops", "pause for 30m all planned moves night work"}; !slices.Equal(lines, want) {
		t.Errorf("policy wrote %q, want %q", lines, want)
	}
}

func TestPolicyErrorsNameMissingArgument(t *testing.T) {
	addr := serveCluster(t, &policyCluster{cluster: &cluster{}})
	for line, want := range map[string]struct {
		exit int // 1 if the node rejects it
		says string
	}{
		"pin 7":                {2, `give a shard, and nodes or one zone`},
		"pin 1 b zone=east":    {2, `give a shard, and nodes or one zone`},
		"pin 1 b c b":          {1, `fallbacks = "c,b" has the node "b" twice`},
		"pin x b":              {2, `"x" is not a shard number`},
		"pin 7 b":              {1, `shard = "7" is not a shard of this cluster: give a number from 0 to 2`},
		"unpin":                {2, `give the number of a shard, or --key KEY`},
		"weight b 1001":        {1, `weight = "1001" is not a valid weight: give a number from 1 to 1000, or 0 for the weight that the node was started with`},
		"pause --for 8000h":    {1, `for = "8000h" is not a duration from 1s to 168h0m0s: give a value such as 30m`},
		"pause --for tomorrow": {1, `for = "tomorrow" is not a duration`},
		"drain ghost":          {1, "ghost"},
	} {
		if code, _, errOut := run(t, line+" --admin="+addr); code != want.exit || !strings.Contains(errOut, want.says) {
			t.Errorf("%s: exit %d, %q, want %+v", line, code, errOut, want)
		}
	}
}

func TestMaxWeightIsThatOfTheShardMap(t *testing.T) {
	if config.MaxWeight != shardmap.MaxWeight {
		t.Errorf("config.MaxWeight = %d, want %d", config.MaxWeight, shardmap.MaxWeight)
	}
}
