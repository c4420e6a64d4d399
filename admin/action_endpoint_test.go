package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/shardmap"
)

// shardless is a cluster without a shard map.
type shardless struct{ *fake }

func (shardless) Map() api.Map { return api.Map{} }

// markless is a cluster without quarantine and policy: it has the methods of api.Cluster only.
type markless struct{ api.Cluster }

// Each action takes its arguments from a JSON object or from the query, within their limits.
func TestPolicyActionsReachTheCluster(t *testing.T) {
	longReason := strings.Repeat("r", api.MaxReason)
	alice := uint32(shardmap.ShardOf("alice", 4))
	for _, tc := range []struct {
		path, query, json string
		want              api.Action
	}{
		{"app-restarted", "node=n3", `{"node":"n3"}`, api.Action{Verb: api.AppRestarted, Node: "n3"}},
		{"rebalance", "reason=new+rack", `{"reason":"new rack"}`, api.Action{Verb: api.Rebalance, Reason: "new rack"}},
		{"cordon", "node=n3&reason=r%C3%A9paration", `{"node":"n3","reason":"réparation"}`, api.Action{Verb: api.Cordon, Node: "n3", Reason: "réparation"}},
		{"resume", "reason=done", `{"reason":"done"}`, api.Action{Verb: api.Resume, Reason: "done"}},
		{"resume", "reason=" + longReason, `{"reason":"` + longReason + `"}`, api.Action{Verb: api.Resume, Reason: longReason}},
		{"set-role", "role=app", `{"role":"app"}`, api.Action{Verb: api.SetRole, Role: "app"}},
		{"clear-role", "", `{}`, api.Action{Verb: api.ClearRole}},
		{"approve", "node=n3&ticket=7", `{"node":"n3","ticket":7}`, api.Action{Verb: api.Approve, Node: "n3", Ticket: 7}},
		{"refuse", "node=n3&reason=x", `{"node":"n3","reason":"x"}`, api.Action{Verb: api.Refuse, Node: "n3", Reason: "x"}},
		{"mark-failed", "node=n3", `{"node":"n3"}`, api.Action{Verb: api.MarkFailed, Node: "n3"}},
		{"cordon", "node=n3", `{"node":"n3"}`, api.Action{Verb: api.Cordon, Node: "n3"}},
		{"uncordon", "node=n3", `{"node":"n3"}`, api.Action{Verb: api.Uncordon, Node: "n3"}},
		{"drain", "node=n3&idle_first=1s", `{"node":"n3","idle_first":"1s"}`, api.Action{Verb: api.Drain, Node: "n3", IdleFirst: "1s"}},
		{"drain", "node=n3&idle_first=24h", `{"node":"n3","idle_first":"24h"}`, api.Action{Verb: api.Drain, Node: "n3", IdleFirst: "24h"}},
		{"pause", "for=1s", `{"for":"1s"}`, api.Action{Verb: api.Pause, For: "1s"}},
		{"pause", "for=168h", `{"for":"168h"}`, api.Action{Verb: api.Pause, For: "168h"}},
		{"resume", "", `{}`, api.Action{Verb: api.Resume}},
		{"weight", "node=n3&weight=2", `{"node":"n3","weight":2}`, api.Action{Verb: api.Weigh, Node: "n3", Weight: 2}},
		{"weight", "node=n3&weight=0", `{"node":"n3","weight":0}`, api.Action{Verb: api.Weigh, Node: "n3"}},
		{"weight", "node=n3&weight=1000", `{"node":"n3","weight":1000}`, api.Action{Verb: api.Weigh, Node: "n3", Weight: shardmap.MaxWeight}},
		{"pin", "shard=3&node=n3", `{"shard":3,"node":"n3"}`, api.Action{Verb: api.Pin, Shard: 3, Node: "n3"}},
		{"pin", "shard=0&zone=east", `{"shard":0,"zone":"east"}`, api.Action{Verb: api.Pin, Zone: "east"}},
		{"pin", "key=alice&zone=east", `{"key":"alice","zone":"east"}`, api.Action{Verb: api.Pin, Shard: alice, Zone: "east"}},
		{"pin", "shard=3&node=n3&fallbacks=n1,n2", `{"shard":3,"node":"n3","fallbacks":["n1","n2"]}`, api.Action{Verb: api.Pin, Shard: 3, Node: "n3", Fallbacks: []string{"n1", "n2"}}},
		{"unpin", "shard=3", `{"shard":3}`, api.Action{Verb: api.Unpin, Shard: 3}},
		{"unpin", "key=alice", `{"key":"alice"}`, api.Action{Verb: api.Unpin, Shard: alice}},
	} {
		tc.want.By = "anybody from 192.0.2.1:1234"
		for target, text := range map[string]string{"/v1/" + tc.path + "?" + tc.query: "", "/v1/" + tc.path: tc.json} {
			f := newFake()
			res := fetchJSON(t, handlerOf(f), "POST", target, text, "Content-Type", "application/json")
			if did := f.actions(); res.Code != 200 || len(did) != 1 || !reflect.DeepEqual(did[0], tc.want) {
				t.Errorf("POST %s %s = %d %s, did %+v, want %+v", target, text, res.Code, body(res), did, tc.want)
			}
		}
	}
}

// An invalid number is an error. It is not treated as absent, and an overflow is not truncated: a
// weight of 4294967298 is not 2.
func TestPolicyErrorsNameArgumentAndRemedy(t *testing.T) {
	const weight, place = `is not a valid weight: give a number from 1 to 1000, or 0 for the weight that the node was started with`, `node is missing: say where the shard belongs, at a node or in a zone, as in {"key":"alice","node":"n3"} or ?shard=7&zone=east`
	const noPause, noShard = `is not a duration from 1s to 168h0m0s: give a value such as 30m`, `shard is missing: say which shard, or whose key, as in {"shard":7} or ?key=alice`
	for _, tc := range []struct {
		cluster func(*fake) api.Cluster
		target  string
		status  int
		detail  string
	}{
		{nil, "cordon", 400, `node is missing: give the ID of a node, as in {"node":"n3"} or ?node=n3`},
		{nil, "pause", 400, `for is missing: say for how long, as in {"for":"30m"} or ?for=30m`},
		{nil, "pause?for=soon", 400, `for = "soon" ` + noPause},
		{nil, "pause?for=999ms", 400, `for = "999ms" ` + noPause},
		{nil, "pause?for=168h0m1s", 400, `for = "168h0m1s" ` + noPause},
		{nil, "rebalance", 400, `reason is missing: give the reason for the log, as in {"reason":"new hardware"} or ?reason=new+hardware`},
		{nil, "rebalance?reason=two%0Alines", 400, "reason = \"two\\nlines\" is longer than 200 bytes or contains control characters: give a shorter text on one line"},
		{nil, "drain?node=n3&reason=two%0Alines", 400, "reason = \"two\\nlines\" is longer than 200 bytes or contains control characters: give a shorter text on one line"},
		{nil, "resume?reason=%FF", 400, "reason = \"\\xff\" is longer than 200 bytes or contains control characters: give a shorter text on one line"},
		{nil, "weight?node=n3", 400, `weight is missing: say which, as in {"node":"n3","weight":2}; 0 is the node's own`},
		{nil, "weight?node=n3&weight=two", 400, `weight = "two" is not a whole number: give a value such as 17`},
		{nil, "weight?node=n3&weight=1001", 400, `weight = "1001" ` + weight},
		{nil, "weight?node=n3&weight=4294967298", 400, `weight = "4294967298" ` + weight},
		{nil, "set-role", 400, `role is missing: name a role, as in {"role":"app"} or ?role=app; clear-role ends a restriction`},
		{nil, "set-role?role=a+b", 400, `role = "a b" is not a role: use up to 32 letters, digits, dots, dashes and underscores, with a letter or digit at both ends`},
		{nil, "set-role?role=app&node=n3", 400, `node = "n3" is not known here: use role, reason`},
		{nil, "pin?node=n3", 400, noShard},
		{nil, "pin?node=n3&shard=1&key=alice", 400, `key = "alice" is given beside shard: leave out one of the two`},
		{nil, "pin?node=n3&key=", 400, `key = "" is empty: give the key of a request`},
		{nil, "pin?node=n3&shard=one", 400, `shard = "one" is not a whole number: give a value such as 17`},
		{nil, "pin?node=n3&shard=4", 400, `shard = "4" is not a shard of this cluster: give a number from 0 to 3`},
		{nil, "pin?node=n3&shard=4294967297", 400, `shard = "4294967297" is not a shard of this cluster: give a number from 0 to 3`},
		{nil, "pin?shard=4", 400, `shard = "4" is not a shard of this cluster: give a number from 0 to 3`},
		{nil, "pin?shard=1", 400, place},
		{nil, "pin?shard=1&node=n3&zone=east", 400, `zone = "east" is given beside node: leave out one of the two`},
		{nil, "pin?shard=1&node=n3&fallbacks=n4,n3", 400, `fallbacks = "n4,n3" has the node "n3" twice, or an empty name: give each node once`},
		{nil, "pin?shard=1&node=n3&fallbacks=n4,", 400, `fallbacks = "n4," has the node "" twice, or an empty name: give each node once`},
		{nil, "pin?shard=1&zone=east&fallbacks=n4", 400, `fallbacks = "n4" belongs to a pin to a node: give node as well, or leave out fallbacks`},
		{nil, "pin?shard=1&node=n&fallbacks=1,2,3,4,5,6,7,8", 400, `fallbacks = "1,2,3,4,5,6,7,8" has more than 7 nodes: leave out the last ones`},
		{nil, "unpin?shard=1&fallbacks=n4", 400, `fallbacks = "n4" is not known here: use service, shard, key, reason`},
		{nil, "unpin", 400, noShard},
		{func(f *fake) api.Cluster { return shardless{f} }, "unpin?key=alice", 503, "the node does not know the cluster's shards yet: ask again once /readyz is green"},
		{func(f *fake) api.Cluster { return shardless{f} }, "unpin?shard=1", 503, "the node does not know the cluster's shards yet: ask again once /readyz is green"},
		{func(f *fake) api.Cluster { return shardless{f} }, "quarantine?key=alice", 503, "the node does not know the cluster's shards yet: ask again once /readyz is green"},
		{func(f *fake) api.Cluster { return markless{f} }, "quarantine?key=alice", 404, "this node knows no keys"},
	} {
		f := newFake()
		var c api.Cluster = f
		if tc.cluster != nil {
			c = tc.cluster(f)
		}
		res := fetchJSON(t, handlerOf(c), "POST", "/v1/"+tc.target, "")
		if p := problemOf(t, res); res.Code != tc.status || p.Detail != tc.detail || len(f.actions()) > 0 {
			t.Errorf("POST %s = %d %q, did %+v, want %d %q", tc.target, res.Code, p.Detail, f.actions(), tc.status, tc.detail)
		}
	}
	if res := fetchJSON(t, handlerOf(markless{newFake()}), "GET", "/v1/policy", ""); res.Code != 404 || problemOf(t, res).Detail != "this node has no policy" {
		t.Errorf("the policy of a cluster without one = %d %s", res.Code, body(res))
	}
	// An invalid parameter of Content-Type does not prevent reading its media type.
	if res := fetchJSON(t, handlerOf(newFake()), "POST", "/v1/cordon", `{"node":"n3"}`, "Content-Type", "application/json; charset"); res.Code != 415 {
		t.Errorf("a Content-Type that is broken = %d %s, want 415", res.Code, body(res))
	}
}

// The log contains all arguments of an action, because a later reader has no other source.
func TestLogContainsRequestedAction(t *testing.T) {
	h, log := guarded(t, newFake())
	want := []string{}
	for _, tc := range [][2]string{
		{"remove?node=n3&force=true", "remove n3 by force"},
		{"drain?node=n3", "drain n3"},
		{"drain?node=n3&idle_first=2m&force=true", "drain n3 idle-first 2m by force"},
		{"pause?for=30m", "pause 30m"},
		{"weight?node=n3&weight=2", "weight n3 2"},
		{"weight?node=n3&weight=0", "weight n3 0"},
		{"pin?shard=0&node=n3", "pin shard 0 n3"},
		{"pin?shard=0&node=n3&fallbacks=n1,n2", "pin shard 0 n3 n1 n2"},
		{"pin?shard=3&zone=east", "pin shard 3 east"},
		{"unpin?shard=0", "unpin shard 0"},
		{"quarantine?shard=0&hash=0123456789abcdef&for=1h", "quarantine shard 0 0123456789abcdef 1h"},
		{"lift?shard=1&hash=0123456789abcdef", "lift shard 1 0123456789abcdef"},
		{"step-down", "step-down"},
		{"step-down?to=n3", "step-down to n3"},
		{"rebalance?reason=new+%22rack%22", "rebalance"},
	} {
		fetchJSON(t, h, "POST", "/v1/"+tc[0], "", "Authorization", "Bearer "+writeToken)
		want = append(want, tc[1])
	}
	got := []string{}
	for _, l := range log.lines(t, "change requested") {
		got = append(got, fmt.Sprint(l["what"]))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each verb is encoded as its word, because the request to the leader contains it as text. An invalid
// verb or another word is an error.
func TestVerbTextRoundTrips(t *testing.T) {
	for v := api.Remove; v <= api.Refuse; v++ {
		var back api.Verb
		b, err := v.MarshalText()
		if wrong := back.UnmarshalText(b); err != nil || wrong != nil || back != v || v.String() != string(b) {
			t.Errorf("%d is %q, %v, and that is %d, %v", v, b, err, back, wrong)
		}
	}
	for v, want := range map[api.Verb]string{-1: "Verb(-1)", 0: "Verb(0)", api.Refuse + 1: fmt.Sprintf("Verb(%d)", api.Refuse+1)} {
		if b, err := v.MarshalText(); err == nil || v.String() != want {
			t.Errorf("%d is %q, %q, want %q and an error", v, v, b, want)
		}
	}
	for _, word := range []string{"", "Remove", "removed"} {
		v := api.Drain
		if err := v.UnmarshalText([]byte(word)); err == nil || v != api.Drain {
			t.Errorf("%q is %s", word, v)
		}
	}
}

// timed is a cluster that records the timeout of an action.
type timed struct {
	*fake
	left time.Duration
}

func (c *timed) Do(ctx context.Context, a api.Action) error {
	end, ok := ctx.Deadline()
	if !ok {
		return fmt.Errorf("%w: it may take for ever", api.ErrRefused)
	}
	c.left = time.Until(end)
	return c.fake.Do(ctx, a)
}

// An action must end before the deadline for writing its response, because its result could not be
// reported after that.
func TestActionHasDeadline(t *testing.T) {
	c := &timed{fake: newFake()}
	if res := fetchJSON(t, handlerOf(c), http.MethodPost, "/v1/step-down", ""); res.Code != 200 || c.left > 30*time.Second {
		t.Errorf("step-down = %d %s, has %v", res.Code, body(res), c.left)
	}
}

// The client sends a key as the caller gave it, and omits empty arguments.
func TestClientQuarantines(t *testing.T) {
	f := newFake()
	c, _ := start(t, f)
	three, alice := uint32(3), uint32(shardmap.ShardOf("alice", 4))
	marked := client.KeyName{Hash: "0123456789abcdef", Shard: &three}
	for _, tc := range []struct {
		do   func() (api.Action, error)
		want api.Action
	}{
		{func() (api.Action, error) { return c.Quarantine(t.Context(), client.KeyName{Key: "alice"}, "", "") }, api.Action{Verb: api.Quarantine, Shard: alice, Hash: "0000000000000065"}},
		{func() (api.Action, error) { return c.Quarantine(t.Context(), marked, "1h", "loops") }, api.Action{Verb: api.Quarantine, Shard: 3, Hash: marked.Hash, For: "1h", Reason: "loops"}},
		{func() (api.Action, error) { return c.Lift(t.Context(), marked, "fixed") }, api.Action{Verb: api.Lift, Shard: 3, Hash: marked.Hash, Reason: "fixed"}},
	} {
		got, err := tc.do()
		got.By = ""
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%+v, %v, want %+v", got, err, tc.want)
		}
	}
}
