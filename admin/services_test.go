package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/internal/problem"
	"shardway/shardmap"
)

// withServices is a cluster with the services chat and default, or with other ones.
type withServices struct {
	*fake
	services []api.MapService
}

func newWithServices() *withServices {
	return &withServices{newFake(), []api.MapService{{Name: "default", Shards: 3}, {Name: "chat", First: 3, Shards: 4}}}
}

func (c *withServices) Map() api.Map {
	return api.Map{Epoch: 17, Shards: 7, Nodes: []api.MapNode{{ID: "n1"}, {ID: "n2"}}, Owners: []int{0, 0, 0, 1, 1, 1, 1}, Services: c.services}
}

func (c *withServices) Shards() api.ShardList {
	list := api.ShardList{Epoch: 17, Proposed: 17, Total: 7}
	for _, service := range c.services {
		for i := range uint32(service.Shards) {
			owner := map[bool]string{true: "n1", false: "n2"}[service.First == 0]
			list.Shards = append(list.Shards, api.Shard{Shard: service.First + i, Service: service.Name, ServiceShard: &i, State: api.ShardOwned, Owner: owner})
		}
	}
	return list
}

// ServiceOf returns chat for paths below /chat, and reports other paths as those without a service.
func (c *withServices) ServiceOf(host, path string) (string, error) {
	if strings.HasPrefix(path, "/chat") || host == "chat.example.com" {
		return "chat", nil
	}
	return "", problem.New(problem.NoService, "no service has a route")
}

func (c *withServices) Mark(_, key string) (shard uint32, hash string, err error) {
	return uint32(shardmap.ShardOf(key, 7)), "0123456789abcdef", nil
}

func serviceHandler(cluster api.Cluster) http.Handler {
	return admin.New(admin.Options{API: apitest.SetOf(cluster), Log: zerolog.Nop()}).Handler()
}

// TestServiceOfShardsAndKeys checks that the numbers of shards count within the service of a request.
func TestServiceOfShardsAndKeys(t *testing.T) {
	inChat, inDefault := uint32(shardmap.ShardOf("alice", 4)), uint32(shardmap.ShardOf("alice", 3))
	chat := func(verb api.Verb, shard uint32) api.Action {
		return api.Action{Verb: verb, Service: "chat", Shard: shard}
	}
	for request, want := range map[string]api.Action{
		"/v1/unpin?service=chat&shard=3":                            chat(api.Unpin, 3),
		"/v1/unpin?service=chat&key=alice":                          chat(api.Unpin, inChat),
		"/v1/unpin?key=alice":                                       {Verb: api.Unpin, Service: "default", Shard: inDefault},
		"/v1/unpin?shard=2":                                         {Verb: api.Unpin, Service: "default", Shard: 2},
		"/v1/lift?service=chat&key=alice":                           {Verb: api.Lift, Service: "chat", Shard: inChat, Hash: "0123456789abcdef"},
		"/v1/quarantine?service=chat&shard=1&hash=0123456789abcdef": {Verb: api.Quarantine, Service: "chat", Shard: 1, Hash: "0123456789abcdef"},
		"/v1/add-service?service=search&shards=64":                  {Verb: api.AddService, Service: "search", Shards: 64},
		"/v1/remove-service?service=chat":                           {Verb: api.RemoveService, Service: "chat"},
	} {
		c := newWithServices()
		res := fetchJSON(t, serviceHandler(c), "POST", request, "")
		if res.Code != http.StatusOK || len(c.mu.did) != 1 {
			t.Errorf("POST %s: %d %s", request, res.Code, res.Body)
			continue
		}
		got := c.mu.did[0]
		got.By = ""
		if got.Verb != want.Verb || got.Service != want.Service || got.Shard != want.Shard || got.Shards != want.Shards || got.Hash != want.Hash {
			t.Errorf("POST %s: did %+v, want %+v", request, got, want)
		}
	}
	for request, want := range map[string]string{
		"/v1/locate?key=alice&service=chat":          `"service":"chat","service_shard":` + string(rune('0'+inChat)),
		"/v1/locate?key=alice&path=/chat/1":          `"service":"chat"`,
		"/v1/locate?key=alice&host=chat.example.com": `"service":"chat"`,
		"/v1/locate?key=alice":                       `"service":"default","service_shard":` + string(rune('0'+inDefault)),
		"/v1/shards?service=chat":                    `"shards":[{"shard":3,"service":"chat","service_shard":0`,
		"/v1/map":                                    `"services":[{"name":"default","first":0,"shards":3},{"name":"chat","first":3,"shards":4}]`,
		"/v1/shards/2?service=chat":                  `{"shard":5,"service":"chat","service_shard":2`,
		"/v1/services":                               `"name":"default"`,
	} {
		if res := fetchJSON(t, serviceHandler(newWithServices()), "GET", request, ""); res.Code != http.StatusOK || !strings.Contains(res.Body.String(), want) {
			t.Errorf("GET %s: %d %s, want %s", request, res.Code, res.Body, want)
		}
	}
}

// TestServiceArgumentsAreRefused checks that each refusal names the parameter, its value and a remedy.
func TestServiceArgumentsAreRefused(t *testing.T) {
	withoutDefault := newWithServices()
	withoutDefault.services = []api.MapService{{Name: "chat", Shards: 3}, {Name: "search", First: 3, Shards: 4}}
	for _, tc := range []struct {
		cluster              api.Cluster
		method, request      string
		code                 problem.Code
		param, value, remedy string
	}{
		{newWithServices(), "POST", "/v1/unpin?service=shop&shard=1", problem.UnknownService, "service", "shop", "give one of default, chat"},
		{newWithServices(), "POST", "/v1/unpin?service=chat&shard=4", problem.BadRequest, "shard", "4", "service chat: give a number from 0 to 3"},
		{newWithServices(), "GET", "/v1/shards/3", problem.BadRequest, "shard", "3", "service default: give a number from 0 to 2"},
		{newWithServices(), "GET", "/v1/shards?service=shop", problem.UnknownService, "service", "shop", "give one of default, chat"},
		{newWithServices(), "GET", "/v1/locate?key=a&service=shop", problem.UnknownService, "service", "shop", "give one of default, chat"},
		{newWithServices(), "GET", "/v1/locate?key=a&service=chat&path=/chat", problem.BadRequest, "service", "chat", "leave out one"},
		{newWithServices(), "GET", "/v1/locate?key=a&path=chat", problem.BadRequest, "path", "chat", "such as /chat/1"},
		{newWithServices(), "GET", "/v1/locate?key=a&path=/x", problem.NoService, "", "", "no service has a route"},
		{withoutDefault, "GET", "/v1/locate?key=a", problem.BadRequest, "service", "", "give one of chat, search"},
		{withoutDefault, "POST", "/v1/unpin?shard=1", problem.BadRequest, "service", "", "give one of chat, search"},
		{newFake(), "GET", "/v1/locate?key=a&service=chat", problem.UnknownService, "service", "chat", "give one of default"},
		{newFake(), "POST", "/v1/add-service?shards=4", problem.BadRequest, "service", "", "give the name of a service"},
		{newFake(), "POST", "/v1/add-service?service=chat", problem.BadRequest, "shards", "", "give the number of shards"},
		{newFake(), "POST", "/v1/add-service?service=Chat&shards=4", problem.BadRequest, "service", "Chat", "lower-case letters"},
		{newFake(), "POST", "/v1/add-service?service=chat&shards=0", problem.BadRequest, "shards", "0", "from 1 to 65536"},
		{newFake(), "POST", "/v1/add-service?service=chat&shards=65537", problem.BadRequest, "shards", "65537", "from 1 to 65536"},
		{newFake(), "POST", "/v1/remove-service", problem.BadRequest, "service", "", "give the name of a service"},
	} {
		res := fetchJSON(t, serviceHandler(tc.cluster), tc.method, tc.request, "")
		p, err := problem.Decode(res.Body.Bytes())
		if err != nil || p.Code != tc.code || p.Param != tc.param || p.Value != tc.value || !strings.Contains(p.Detail, tc.remedy) {
			t.Errorf("%s %s: %d %s, want %s", tc.method, tc.request, res.Code, res.Body, tc.remedy)
		}
	}
	for err, want := range map[error]problem.Code{api.ErrUnknownService: problem.UnknownService, api.ErrServiceInUse: problem.ServiceInUse} {
		c := newFake()
		c.refuse = err
		res := fetchJSON(t, serviceHandler(c), "POST", "/v1/remove-service?service=chat", "")
		if p, err := problem.Decode(res.Body.Bytes()); err != nil || p.Code != want {
			t.Errorf("%v: %d %s", want, res.Code, res.Body)
		}
	}
}

// Services returns the service chat, which only n2 runs, and default, which n1 and n2 run.
func (c *withServices) Services(context.Context) api.ServiceList {
	return api.ServiceList{Services: []api.Service{
		{MapService: c.services[0], Nodes: []string{"n1", "n2"}}, {MapService: c.services[1], Nodes: []string{"n2"}},
	}}
}

// TestDrainOfTheLastNodeOfAServiceWarns checks the warning in the response to a drain.
func TestDrainOfTheLastNodeOfAServiceWarns(t *testing.T) {
	for node, want := range map[string]string{"n2": `\"n2\" is the last node that runs chat: `, "n1": ""} {
		res := fetchJSON(t, serviceHandler(newWithServices()), "POST", "/v1/drain?node="+node, "")
		if warns := strings.Contains(res.Body.String(), `"warning"`); res.Code != http.StatusOK || warns != (want != "") || !strings.Contains(res.Body.String(), want) {
			t.Errorf("drain %s: %d %s, want %q", node, res.Code, res.Body, want)
		}
	}
	all := api.ServiceList{Services: []api.Service{{MapService: api.MapService{Name: "chat"}, Nodes: []string{"n1", "n2"}}}}
	if names := all.OnlyRunBy("n2", func(node string) bool { return node == "n1" }); len(names) != 1 {
		t.Errorf("a node that leaves counts: %v", names)
	}
}
