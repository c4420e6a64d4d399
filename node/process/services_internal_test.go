package process

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shardway/config"
	"shardway/node"
	"shardway/proxy/upstream"
)

func servicesConfig(t *testing.T, yaml string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shardway.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := config.Load([]string{"--config=" + file}, nil, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	return &conf
}

func TestSettingsOfServicesReachProxy(t *testing.T) {
	conf := servicesConfig(t, `
hooks: /_hooks
services:
  chat: {routes: [/chat], key: path:2, upstreams: ['http://127.0.0.1:3001', 'http://127.0.0.1:3002'], total_timeout: 2h, max_key_inflight: 1, hooks: /_chat}
  search: {routes: [/search], key: query:q, shards: 64, hooks: "http://127.0.0.1:3999"}
  default: {routes: [/], upstream: "http://127.0.0.1:3000"}
`)
	settings, err := proxySettings(conf)
	if err != nil {
		t.Fatal(err)
	}
	chat := settings.Services["chat"]
	if len(settings.Services) != 3 || chat.TotalTimeout != 2*time.Hour || chat.MaxKeyInflight != 1 || !settings.Keys.HasServices() {
		t.Errorf("%+v", settings.Services)
	}
	if paths := hookPaths(conf); !slices.Equal(paths, []string{"/_hooks", "/_chat"}) {
		t.Errorf("hook paths %v", paths)
	}
	options := &node.Options{Dir: openDir(t)}
	apps, err := numberInstances(options, conf)
	if err != nil {
		t.Fatal(err)
	}
	one := upstream.InstanceBits(0)
	want := map[string]upstream.InstanceBits{"chat": one.With(0).With(1), "default": one.With(2), "search": 0}
	if got := options.Proxy.ServiceInstances; len(got) != len(want) || got["chat"] != want["chat"] || got["default"] != want["default"] || got["search"] != want["search"] {
		t.Errorf("instances %v of %v, want %v", got, apps, want)
	}
	// The app of chat at port 3002 moves to search. It gets another number, because the map may still
	// assign shards of chat to the old one.
	moved := servicesConfig(t, `
services:
  chat: {routes: [/chat], key: path:2, upstream: "http://127.0.0.1:3001"}
  search: {routes: [/search], key: query:q, shards: 64, upstream: "http://127.0.0.1:3002"}
  default: {routes: [/], upstream: "http://127.0.0.1:3000"}
`)
	apps, err = numberInstances(options, moved)
	if err != nil {
		t.Fatal(err)
	}
	if got := options.Proxy.ServiceInstances; got["chat"] != one.With(0) || got["default"] != one.With(2) || got["search"] != one.With(3) || apps[1].url != "" {
		t.Errorf("instances %v of %v", got, apps)
	}
}

// The only app of a node keeps its number when its address changes, but not when its service changes.
func TestOnlyAppOfAnotherServiceHasAnotherNumber(t *testing.T) {
	options := &node.Options{Dir: openDir(t)}
	for _, step := range []struct {
		yaml, service string
		instance      uint8
	}{
		{`upstream: http://127.0.0.1:3000`, "", 0},
		{`services: {default: {routes: [/], upstream: "http://127.0.0.1:3001"}, chat: {routes: [/chat]}}`, "default", 0},
		{`services: {default: {routes: [/]}, chat: {routes: [/chat], upstream: "http://127.0.0.1:3001"}}`, "chat", 1},
	} {
		if _, err := numberInstances(options, servicesConfig(t, step.yaml)); err != nil {
			t.Fatal(err)
		}
		instances := options.Proxy.ServiceInstances
		if (instances == nil) != (step.service == "") || instances != nil && instances[step.service] != upstream.InstanceBits(0).With(step.instance) {
			t.Errorf("%s: %v", step.yaml, instances)
		}
	}
}
