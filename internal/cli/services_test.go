package cli_test

import (
	"context"
	"strings"
	"testing"

	"shardway/admin/api"
)

// serviceCluster is a cluster with the services default and chat.
type serviceCluster struct{ *policyCluster }

func (c *serviceCluster) Services(context.Context) api.ServiceList {
	return api.ServiceList{Epoch: 9, Services: []api.Service{
		{MapService: api.MapService{Name: "default", Shards: 3}, Configured: true, Started: true, Nodes: []string{"a", "b"}, Owners: map[string]int{"a": 2, "b": 1}},
		{MapService: api.MapService{Name: "chat", First: 3, Shards: 2}, Started: true, Nodes: []string{"b"}, Orphaned: 1, Owners: map[string]int{"b": 1}},
	}}
}

func (c *serviceCluster) ServiceOf(string, string) (string, error) { return "chat", nil }

func (c *serviceCluster) Map() api.Map {
	return api.Map{Epoch: 9, Shards: 5, Nodes: []api.MapNode{{ID: "a"}, {ID: "b"}}, Owners: []int{0, 0, 1, 1, -1}, Services: []api.MapService{{Name: "default", Shards: 3}, {Name: "chat", First: 3, Shards: 2}}}
}

func (c *serviceCluster) Shards() api.ShardList {
	list := api.ShardList{Epoch: 9, Proposed: 9, Total: 5}
	for i, owner := range []string{"a", "a", "b", "b", ""} {
		service, number, state := "default", uint32(i), api.ShardOwned
		if i >= 3 {
			service, number = "chat", uint32(i-3)
		}
		if owner == "" {
			state = api.ShardOrphaned
		}
		list.Shards = append(list.Shards, api.Shard{Shard: uint32(i), Service: service, ServiceShard: &number, State: state, Owner: owner, Epoch: 9})
	}
	return list
}

func (c *serviceCluster) Plan(context.Context) (api.Plan, error) {
	return api.Plan{Epoch: 9, Moves: []api.PlannedMoves{{To: "b", Why: "orphan", Service: "chat", Shards: []uint32{4}}, {From: "a", To: "b", Why: "join", Service: "default", Shards: []uint32{0}}}}, nil
}

func (c *serviceCluster) Hot(context.Context) api.HotList {
	one, two := uint32(1), uint32(0)
	return api.HotList{
		Shards: []api.HotShard{{Shard: 1, Service: "default", ServiceShard: &one, Node: "a"}, {Shard: 3, Service: "chat", ServiceShard: &two, Node: "b"}},
		Keys:   []api.HotKey{{Shard: 3, Service: "chat", ServiceShard: &two, Node: "b", Hash: "00000000000000aa"}},
	}
}

func (c *serviceCluster) Sockets(context.Context) api.SocketList {
	one, two := uint32(1), uint32(0)
	return api.SocketList{Shards: []api.ShardSockets{{Shard: 1, Service: "default", ServiceShard: &one, Plain: 5}, {Shard: 3, Service: "chat", ServiceShard: &two, Attached: 4}}}
}

func newServiceCluster() *serviceCluster {
	return &serviceCluster{&policyCluster{cluster: &cluster{done: make(chan api.Action, 1)}}}
}

// TestServiceCommandsReachTheNode checks the actions of the commands about services, and of commands with --service.
func TestServiceCommandsReachTheNode(t *testing.T) {
	c := newServiceCluster()
	addr := serveCluster(t, c)
	for _, tc := range []struct {
		line, out string
		want      api.Action
	}{
		{"service add search --shards 64", "service search has 64 shards", api.Action{Verb: api.AddService, Service: "search", Shards: 64}},
		{"service remove chat", "service chat is removed", api.Action{Verb: api.RemoveService, Service: "chat"}},
		{"unpin 1 --service chat", "shard 1 of service chat is not pinned", api.Action{Verb: api.Unpin, Service: "chat", Shard: 1}},
		{"unpin 2", "shard 2 of service default is not pinned", api.Action{Verb: api.Unpin, Service: "default", Shard: 2}},
		{"pin 0 zone=east --service chat", "shard 0 of service chat is pinned", api.Action{Verb: api.Pin, Service: "chat", Zone: "east"}},
	} {
		code, out, errOut := run(t, tc.line+" --admin="+addr)
		if code != 0 || !strings.Contains(out, tc.out) {
			t.Errorf("%s: exit %d, %s%s", tc.line, code, out, errOut)
			continue
		}
		got := <-c.done
		if got.Verb != tc.want.Verb || got.Service != tc.want.Service || got.Shard != tc.want.Shard || got.Shards != tc.want.Shards || got.Zone != tc.want.Zone {
			t.Errorf("%s: did %+v, want %+v", tc.line, got, tc.want)
		}
	}
}

// TestServicesAreShown checks that the output names the services, and numbers shards within them.
func TestServicesAreShown(t *testing.T) {
	addr := serveCluster(t, newServiceCluster())
	for line, want := range map[string]string{
		"service list":                        "chat 2 b b:1 0 1 no 3-4",
		"shards":                              "chat b owned - 9 1 0",
		"shards --service chat":               "SERVICE OWNER STATE TO EPOCH COUNT SHARDS chat - orphaned - 9 1 1 chat b owned - 9 1 0",
		"plan --service chat":                 "chat orphaned b 1 orphan planned",
		"hot --service chat":                  "SERVICE SHARD NODE REQUESTS/S BUSY KB/S WEBSOCKETS chat 0 b",
		"websockets --service chat":           "SERVICE SHARD ATTACHED DETACHED PLAIN chat 0 4 0 0",
		"websockets --service chat --shard 0": "PLAIN chat 0 4 0 0",
		"websockets --shard 1":                "PLAIN default 1 0 0 5",
		"locate x --service chat":             "SERVICE KEY SHARD OWNER ENDPOINT EPOCH chat x",
		"locate x --host h --path /p":         "chat x",
		"wait serving --service default":      "",
	} {
		code, out, errOut := run(t, line+" --admin="+addr)
		if got := strings.Join(strings.Fields(out), " "); code != 0 || !strings.Contains(got, want) {
			t.Errorf("%s: exit %d, %q %s, want %q", line, code, got, errOut, want)
		}
	}
	for line, want := range map[string]string{
		"shards --service shop":                      "give one of default, chat",
		"plan --service shop":                        "give one of default, chat",
		"hot --service shop":                         "give one of default, chat",
		"locate x --service shop":                    "give one of default, chat",
		"unpin 2 --service chat":                     "give a number from 0 to 1",
		"locate x --service chat --path /p":          "exclude each other",
		"websockets --service shop":                  "give one of default, chat",
		"websockets --service chat --shard 1":        "shard 1 of service chat has no WebSocket",
		"websockets move-test --all --service chat":  "omit --service",
		"wait node a --service chat":                 "--service belongs to wait serving",
		"wait serving --service chat --timeout 50ms": "1 shard of service chat without an owner",
		"service add Chat --shards 4":                "lower-case letters",
	} {
		if code, out, errOut := run(t, line+" --admin="+addr); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %s%s, want %q", line, code, out, errOut, want)
		}
	}
}

// TestDrainCommandPrintsTheWarning checks the warning for a drain of the last node of a service.
func TestDrainCommandPrintsTheWarning(t *testing.T) {
	c := newServiceCluster()
	code, out, errOut := run(t, "drain b --admin="+serveCluster(t, c))
	if want := `warning: node "b" is the last node that runs chat: `; code != 0 || !strings.Contains(errOut, want) {
		t.Errorf("exit %d, %s%s, want %s", code, out, errOut, want)
	}
}
