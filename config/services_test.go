package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/config"
	"shardway/internal/headerrules"
)

const chatAndSearch = `
total_timeout: 1h
hooks: /_hooks
services:
  chat:
    routes: [chat.example.com, example.com/chat]
    key: [path:2]
    paths:
      /chat/rooms: [path:3]
      /chat/slow: {total_timeout: 2h}
    shards: 256
    upstreams: [http://127.0.0.1:3001, http://127.0.0.1:3002]
    health: /health
    key_limit: rate=10/s
    headers: {response: {set: {X-Service: chat}}}
  search: {routes: /search, key: query:q, shards: 64, on_missing_key: local}
  default: {routes: [/], upstream: "http://127.0.0.1:3000", total_timeout: off}
`

func servicesConfig(t *testing.T, yaml string) config.Config {
	t.Helper()
	c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServicesAreRead(t *testing.T) {
	c := servicesConfig(t, chatAndSearch)
	var names []string
	for i := range c.Services {
		names = append(names, c.Services[i].Name)
	}
	if !slices.Equal(names, []string{"chat", "default", "search"}) {
		t.Fatalf("services %v", names)
	}
	chat, rest, search := &c.Services[0], &c.Services[1], &c.Services[2]
	if !slices.Equal(chat.Settings.Upstreams(), []string{"http://127.0.0.1:3001", "http://127.0.0.1:3002"}) || chat.Settings.Health != "/health" || chat.Settings.Shards != 256 {
		t.Errorf("chat %+v", chat.Settings)
	}
	if !chat.Runs() || !rest.Runs() || search.Runs() || c.Gateway() || !c.HasHooks() {
		t.Error("the node runs other services")
	}
	if chat.Settings.TotalTimeout != time.Hour || rest.Settings.TotalTimeout != 0 || rest.Settings.Hooks != "/_hooks" || rest.Settings.Health != "" || rest.Settings.Shards != 1024 {
		t.Errorf("defaults %+v", rest.Settings)
	}
	if c.ShardCount() != 256+64+1024 || len(c.Upstreams()) != 3 {
		t.Errorf("%d shards, upstreams %v", c.ShardCount(), c.Upstreams())
	}
	const want = `{"services":{"chat":{"routes":["chat.example.com","example.com/chat"],"shards":256,"key":["path:2"],"paths":{"/chat/rooms":["path:3"]},"on_missing_key":"reject"},` +
		`"default":{"routes":["/"],"shards":1024,"key":["header:x-shard-key"],"on_missing_key":"reject"},"search":{"routes":["/search"],"shards":64,"key":["query:q"],"on_missing_key":"local"}}}`
	if text, err := c.KeyConfig().Canonical(); err != nil || text != want {
		t.Errorf("%v %s\nwant %s", err, text, want)
	}
	got := map[string]string{}
	for _, value := range c.Values() {
		got[value.Key] = value.Value + " " + value.Origin
	}
	for key, want := range map[string]string{
		"services.chat.routes": "chat.example.com,example.com/chat f.yaml:6", "services.chat.shards": "256 f.yaml:11", "services.chat.upstream": "http://127.0.0.1:3001,http://127.0.0.1:3002 f.yaml:12",
		"services.chat.paths /chat/slow": "total_timeout: 2h f.yaml:8", "services.search.key": "query:q f.yaml:16", "services.default.total_timeout": "off f.yaml:17", "services.default.shards": "1024 default",
		"services.chat.key_limit": "rate=10/s f.yaml:14", "services.search.upstream": " default", "services.chat.headers": "response: set X-Service f.yaml:15",
	} {
		if key == "services.chat.headers" {
			continue // the text is that of package headerrules
		}
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
	if chat.Settings.Headers.Equal(&headerrules.Config{}) || got["services.chat.hooks"] != "" {
		t.Errorf("headers %v, hooks %q", chat.Settings.Headers, got["services.chat.hooks"])
	}
}

// Each problem names the key, the value and the remedy.
func TestInvalidServicesHaveRemedy(t *testing.T) {
	for yaml, want := range map[string]string{
		"services: 3":                                                                               "config: services (f.yaml:1): the value is not a table of services; write one line for each service",
		"services: {}":                                                                              "not a table of services",
		"services: {a: 3}":                                                                          "config: services.a (f.yaml:1): the value is not a table; write settings like",
		"services: {Chat: {routes: [/]}}":                                                           `config: services = "Chat" (f.yaml:1): "Chat" is not a name of a service; use 1 to 32`,
		"services: {a: {key: ip}}":                                                                  "config: services.a.routes (f.yaml:1): the service has no routes, so no request would reach it; set hosts",
		"services: {a: {routes: {/: ip}}}":                                                          "config: services.a.routes (f.yaml:1): the value is not a list of hosts and path prefixes; write it like",
		"services: {a: {routes: ['a:80']}}":                                                         `config: services.a.routes = "a:80" (f.yaml:1): "a:80" has a port; remove the port`,
		"services: {a: {routes: [/]}, b: {routes: [/]}}":                                            `config: services.b.routes = "/" (f.yaml:1): "/" is the same route as "/" of the service a; keep it in one of the services a and b`,
		"services: {a: {routes: [/], shards: 0}}":                                                   `config: services.a.shards = "0" (f.yaml:1): out of bounds; give a number from 1 to 65536`,
		"services: {a: {routes: [/], shards: x}}":                                                   `config: services.a.shards = "x" (f.yaml:1): not a whole number; give a number from 1 to 65536`,
		"services: {a: {routes: [/a], shards: 65536}, b: {routes: [/]}}":                            `config: services = "66560" (f.yaml:1): the services have 66560 shards in all, more than 65536`,
		"services: {a: {routes: [/], key: nonsense}}":                                               "config: services.a.key = ",
		"services: {a: {routes: [/], paths: {x: ip}}}":                                              `config: services.a.paths = "x" (f.yaml:1): "x" is not a path prefix; begin it with a slash`,
		"services: {a: {routes: [/], paths: {/x: {key_limit: 5}}}}":                                 "config: services.a.paths (f.yaml:1): \"/x\": key_limit: ",
		"services: {a: {routes: [/], paths: {/x: {weight: 5}}}}":                                    "config: services.a.paths = \"/x\" (f.yaml:1): \"weight\" is not a setting of a route",
		"services: {a: {routes: [/], weight: 5}}":                                                   "config: services.a.weight (f.yaml:1): not a setting of a service; set weight outside of services: it applies to all services",
		"services: {a: {routes: [/], upstrem: x}}":                                                  "config: services.a.upstrem (f.yaml:1): unknown key; did you mean upstream?",
		"services: {a: {routes: [/], key: ip, key: host}}":                                          `config: services.a (f.yaml:1): "key" is there twice`,
		"services: {a: {routes: [/]}, a: {routes: [/b]}}":                                           `config: services (f.yaml:1): "a" is there twice`,
		"services: {a: {routes: [/], upstream: 'x'}}":                                               `config: services.a.upstream = "x" (f.yaml:1): `,
		"services: {a: {routes: [/], upstream: ''}}":                                                "config: services.a.upstream (f.yaml:1): it is empty; set the address of the app, or remove it",
		"services: {a: {routes: [/], upstream: 'http://127.0.0.1:8080'}}":                           `config: services.a.upstream = "http://127.0.0.1:8080" (f.yaml:1): this node listens there itself (listen :8080)`,
		"services: {a: {routes: [/], on_missing_key: later}}":                                       `config: services.a.on_missing_key = "later" (f.yaml:1): unknown value; choose one of`,
		"services: {a: {routes: [/], cookie: name=x}}":                                              `config: services.a.cookie = "name=x" (f.yaml:1): Shardway sets a cookie only for requests without a key, and on_missing_key is reject`,
		"services: {a: {routes: [/], on_missing_key: cookie, cookie: name=a b}}":                    `config: services.a.cookie = "name=a b" (f.yaml:1): `,
		"services: {a: {routes: [/], shard_queue: 3}}":                                              `config: services.a.shard_queue = "3" (f.yaml:1): requests wait there only for a limit`,
		"services: {a: {routes: [/], health_method: POST}}":                                         `config: services.a.health_method = "POST" (f.yaml:1): without health, the check only opens a connection`,
		"services: {a: {routes: [/], headers: {request: {set: {Host: x}}}}}":                        "config: services.a.headers (f.yaml:1): ",
		"services: {a: {routes: [/], upstream: 'http://127.0.0.1:1', hooks: 'http://127.0.0.1:1'}}": "so clients could call the hooks",
		"services: {a: {routes: [/a], upstream: 'http://127.0.0.1:1', hooks: /h}, b: {routes: [/], upstream: 'http://127.0.0.1:2'}}":                 "config: services.b.hooks (default): of the services on one node, either all have hooks or none, and b and a differ",
		"hooks: http://127.0.0.1:9\nservices: {a: {routes: [/a], upstream: 'http://127.0.0.1:1'}, b: {routes: [/], upstream: 'http://127.0.0.1:2'}}": `the service a has the same hooks, and each app needs its own`,
		"upstream: http://127.0.0.1:1\nservices: {a: {routes: [/]}}":                                                                                 `config: upstream = "http://127.0.0.1:1" (f.yaml:1): it would have no effect next to services; move it to a service, such as services.default.upstream`,

		"shards: 5\nservices: {a: {routes: [/]}}":                                                    "such as services.default.shards",
		"key: ip\nservices: {a: {routes: [/]}}":                                                      "such as services.default.key",
		"routes: {/a: ip}\nservices: {a: {routes: [/]}}":                                             "such as services.default.paths",
		"exec: app {addr}\nservices: {a: {routes: [/]}}":                                             `config: exec = "app {addr}" (f.yaml:1): the node starts the processes of one app, and it has a table of services; remove exec`,
		"service: {a: {routes: [/]}}":                                                                "did you mean services?",
		"services: {a: {routes: [/a], key: 'wrap:cookie:sid'}, b: {routes: [/], key: 'cookie:sid'}}": "would read the suffix",
	} {
		_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(yaml+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", yaml, err, want)
		}
	}
	var many []string
	for name := range strings.SplitSeq("a b c d e f g h i j k l m n o p q r s t u v w x y z aa bb cc dd ee ff gg", " ") {
		many = append(many, name+": {routes: ["+name+".x], shards: 1, upstream: 'http://127.0.0.1:1'}")
	}
	if _, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("services: {"+strings.Join(many, ", ")+"}\n")); err == nil || !strings.Contains(err.Error(), `services = "33" (f.yaml:1): the services have 33 app instances on this node, more than 32`) {
		t.Errorf("33 services: %v", err)
	}
	if _, err := config.Compose(config.Program{Embedded: true, Args: []string{"--config=f.yaml"}, Read: yamlFile("services: {a: {routes: [/]}}\n")}); err == nil || !strings.Contains(err.Error(), "the app is in this process, and it is the only service; remove services") {
		t.Errorf("an embedded app: %v", err)
	}
}

// Each problem is reported once.
func TestProblemOfServiceIsReportedOnce(t *testing.T) {
	for _, yaml := range []string{
		"services: {a: {routes: [/], key: nonsense}}", "services: {a: {routes: [/], shards: 0}}", "services: {a: {routes: [/], on_missing_key: later}}", "services: {a: {routes: [/], paths: {/x: {key_limit: 5}}}}",
		"total_timeout: 1ms\nservices: {a: {routes: [/]}, b: {routes: [/b]}}", "services: {a: {routes: [/], upstream: 'x'}}", "services: {a: {routes: [/], on_missing_key: cookie, cookie: name=a b}}",
		"services: {a: {routes: [/], key: x, shards: 0}}", "services: {a: {routes: {/: ip}}}",
	} {
		_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(yaml+"\n"))
		found := map[string]bool{}
		for _, problem := range problems(t, err) {
			if found[problem.Key] {
				t.Errorf("%s: %s is reported twice: %v", yaml, problem.Key, err)
			}
			found[problem.Key] = true
		}
	}
}

func TestChangesOfServices(t *testing.T) {
	before := servicesConfig(t, chatAndSearch)
	for _, tc := range []struct{ from, to, live, restart string }{
		{"key: [path:2]", "key: [path:3]", "services.chat.key", ""},
		{"routes: /search", "routes: /find", "services.search.routes", ""},
		{"/chat/rooms: [path:3]", "/chat/rooms: [path:4]", "services.chat.paths", ""},
		{"{X-Service: chat}", "{X-Service: Chat}", "services.chat.headers", ""},
		{"rate=10/s", "rate=20/s", "services.chat.key_limit", ""},
		{"total_timeout: 1h", "total_timeout: 90m", "total-timeout services.chat.total_timeout services.search.total_timeout", ""},
		{"shards: 64", "shards: 65", "", "services.search.shards"},
		{"http://127.0.0.1:3002", "http://127.0.0.1:3003", "", "services.chat.upstream"},
		{"health: /health", "health: /ready", "", "services.chat.health"},
		{"  search: {", "  find: {", "services.find services.search", ""},
		{"  default: {", "  other: {", "services.default services.other", "services.default.upstream services.other.upstream"},
	} {
		after := servicesConfig(t, strings.Replace(chatAndSearch, tc.from, tc.to, 1))
		changes := after.ChangesSince(&before)
		if live, restart := strings.Join(changes.Live, " "), strings.Join(changes.Restart, " "); live != tc.live || restart != tc.restart {
			t.Errorf("%s: live %q, restart %q, want %q, %q", tc.to, live, restart, tc.live, tc.restart)
		}
	}
	same := servicesConfig(t, chatAndSearch)
	if !same.ChangesSince(&before).IsEmpty() {
		t.Errorf("changes %+v", same.ChangesSince(&before))
	}
	without := servicesConfig(t, "total_timeout: 1h\nhooks: /_hooks\n")
	if changes := without.ChangesSince(&before); !slices.Equal(changes.Restart, []string{"services"}) || len(changes.Live) != 0 {
		t.Errorf("%+v", changes)
	}
}

func TestClusterSettingsContainServices(t *testing.T) {
	one, other := servicesConfig(t, chatAndSearch), servicesConfig(t, strings.Replace(chatAndSearch, "query:q", "query:term", 1))
	a, b := one.ClusterSettings()["services"], other.ClusterSettings()["services"]
	if a == "" || a == b || len(a) > 160 {
		t.Errorf("%s\n%s", a, b)
	}
	without := servicesConfig(t, "shards: 8\n")
	if _, ok := without.ClusterSettings()["services"]; ok || without.HasServices() || without.ShardCount() != 8 {
		t.Error("a configuration without services has some")
	}
	if text, err := without.KeyConfig().Canonical(); err != nil || text != `{"key":["header:x-shard-key"],"on_missing_key":"reject"}` {
		t.Errorf("%v %s", err, text)
	}
}

func TestAdviceAboutServices(t *testing.T) {
	c := servicesConfig(t, "services: {a: {routes: [/], key: 'cookie:PHPSESSID', paths: {/x: 'header:Mcp-Session-Id'}}}\n")
	var keys []string
	for _, problem := range c.Advice() {
		keys = append(keys, problem.Key+" "+problem.Origin)
	}
	if !slices.Equal(keys, []string{"services.a.key f.yaml:1", "services.a.paths /x f.yaml:1"}) {
		t.Errorf("%v", keys)
	}
}
