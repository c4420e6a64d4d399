package config_test

import (
	"strings"
	"testing"
	"time"

	"shardway/config"
)

// A route is a list of sources, or a table of settings. Settings other than the key do not change which
// key a request has.
func TestRouteSettingsAreRead(t *testing.T) {
	c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("key: host\nroutes:\n  /a: [ip]\n  /b:\n    key: [header:X-T]\n    key_limit: rate=1/m\n    first_byte_timeout: 30m\n    total_timeout: 2h\n    upstream_idle_timeout: 1h\n  /a/c: {first_byte_timeout: off}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, value := range c.Values() {
		got[value.Key] = value.Value
	}
	for name, want := range map[string]string{"routes /a": "ip", "routes /b": "header:X-T key_limit: rate=1/m first_byte_timeout: 30m upstream_idle_timeout: 1h total_timeout: 2h", "routes /a/c": "first_byte_timeout: off"} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	if keys := c.KeyRoutes(); len(keys) != 2 {
		t.Errorf("routes with keys = %v", keys)
	}
	for i := range c.Routes {
		if limit, isSet := c.Routes[i].FirstByteLimit(); isSet != (c.Routes[i].Prefix != "/a") || c.Routes[i].Prefix == "/b" && limit != 30*time.Minute {
			t.Errorf("%s: timeout %v, %v", c.Routes[i].Prefix, limit, isSet)
		}
	}
	for i := range c.Routes {
		if limit, isSet := c.Routes[i].TotalLimit(); isSet != (c.Routes[i].Prefix == "/b") || isSet && limit != 2*time.Hour {
			t.Errorf("%s: timeout %v, %v", c.Routes[i].Prefix, limit, isSet)
		}
	}
	changed, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("key: host\nroutes:\n  /a: [ip]\n  /b:\n    key: [header:X-T]\n    key_limit: rate=2/m\n"))
	if err != nil {
		t.Fatal(err)
	}
	if changes := changed.ChangesSince(&c); len(changes.Live) != 1 || changes.Live[0] != "routes" {
		t.Errorf("changes = %+v", changes)
	}
}

func TestInvalidRouteSettingsHaveRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"/a: {key_limit: 5}":                             "key_limit",
		"/a: {key-limit: rate=1/s}":                      "did you mean key_limit?",
		"/a: {first_byte_timeout: 1}":                    "first_byte_timeout",
		"/a: {first_byte_timeout: 1ms}":                  "first_byte_timeout",
		"/a: {first_byte_timeout: [1s]}":                 "wrong form",
		"/a: {total_timeout: 25h}":                       "total_timeout: out of bounds",
		"/a: {upstream_idle_timeout: x}":                 "upstream_idle_timeout: not a duration",
		"/a: {weight: 3}":                                "not a setting of a route",
		"/a: {key: [nonsense]}":                          "nonsense",
		"/a: {key: ip, key: host}":                       "twice",
		"/a: {key_limit: rate=1/s}\n  /%61: {key: [ip]}": "same path prefix",
	} {
		_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("routes:\n  "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
