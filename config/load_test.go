package config_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/config"
	"shardway/keysource"
)

// files is a reader over texts in memory.
func files(m map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		s, ok := m[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(s), nil
	}
}

// yamlFile is a reader that has one file, f.yaml.
func yamlFile(text string) func(string) ([]byte, error) {
	return files(map[string]string{"f.yaml": text})
}

// problems takes the mistakes out of an error.
func problems(t *testing.T, err error) []config.Problem {
	t.Helper()
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*config.Error](err)
	if !ok {
		t.Fatalf("error is a %T, want an *Error: %v", err, err)
	}
	return e.Problems
}

func TestDefaultsRunOnOneMachine(t *testing.T) {
	c, err := config.Load(nil, nil, files(nil))
	if err != nil {
		t.Fatalf("Load of nothing: %v", err)
	}
	if !c.Gateway() {
		t.Error("without an upstream the node is no gateway")
	}
	got := []any{c.Data, c.Listen, c.Admin, c.Gossip, c.Peer, c.BootstrapExpect, c.Shards, c.MaxVoters, c.Weight, c.Keys, c.OnMissingKey}
	want := []any{"./data", ":8080", "127.0.0.1:8081", "127.0.0.1:7946", "127.0.0.1:7947", 1, 1024, 5, 1, []string{"header:X-Shard-Key"}, keysource.MissingReject}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("defaults = %v, want %v", got, want)
	}
	times := []time.Duration{c.Heartbeat, c.Lease, c.DeadAfter, c.DrainTimeout, c.StreamGrace, c.RestartGrace, c.ShutdownTimeout, c.QueueWait, c.RemoveDeadAfter, c.FinalizeAfter}
	wantTimes := []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2500 * time.Millisecond, 5 * time.Second, 250 * time.Millisecond, 0, 30 * time.Second, 15 * time.Second, 0, time.Hour}
	if !slices.Equal(times, wantTimes) {
		t.Errorf("default times = %v, want %v", times, wantTimes)
	}
	if c.QueueRequests != 10000 || c.QueueBytes != 64<<20 || c.BodyBuffer != 64<<10 || c.MaxUpstreamConns != 1024 {
		t.Errorf("default limits = %d, %d, %d, %d", c.QueueRequests, c.QueueBytes, c.BodyBuffer, c.MaxUpstreamConns)
	}
	if c.Takeover != config.TakeoverLease || c.RebalanceMode != config.RebalanceIncremental || c.LogLevel != "info" || c.LogFormat != config.LogAuto {
		t.Errorf("default choices = %q, %q, %q, %q", c.Takeover, c.RebalanceMode, c.LogLevel, c.LogFormat)
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	const yaml = "shards: 16\nweight: 2\nnode: from-file\nkey: [host]\n"
	tests := []struct {
		name string
		args []string
		env  []string
		want int
		from string
	}{
		{"default", nil, nil, 1024, "default"},
		{"file", []string{"--config", "f.yaml"}, nil, 16, "f.yaml:1"},
		{"file named by the environment", nil, []string{"SHARDWAY_CONFIG=f.yaml"}, 16, "f.yaml:1"},
		{"environment over file", []string{"--config=f.yaml"}, []string{"SHARDWAY_SHARDS=32"}, 32, "SHARDWAY_SHARDS"},
		{"an empty variable is none", []string{"--config=f.yaml"}, []string{"SHARDWAY_SHARDS="}, 16, "f.yaml:1"},
		{"flag over both", []string{"--config=f.yaml", "--shards", "64"}, []string{"SHARDWAY_SHARDS=32"}, 64, "flag"},
		{"the last flag counts", []string{"--shards=1", "--shards=2"}, nil, 2, "flag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Load(tt.args, tt.env, yamlFile(yaml))
			if err != nil {
				t.Fatal(err)
			}
			if c.Shards != tt.want {
				t.Errorf("Shards = %d, want %d", c.Shards, tt.want)
			}
			i := slices.IndexFunc(c.Values(), func(v config.Value) bool { return v.Key == "shards" })
			if from := c.Values()[i].Origin; from != tt.from {
				t.Errorf("came from %q, want %q", from, tt.from)
			}
		})
	}
}

// Editors of Windows begin a file with one.
func TestByteOrderMarkIsIgnored(t *testing.T) {
	c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("\ufeffshards: 16\n"))
	if err != nil || c.Shards != 16 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestListsReplaceTheListBelow(t *testing.T) {
	c, err := config.Load(
		[]string{"--config=f.yaml", "--key", "path:1", "--key=ip,host"},
		[]string{"SHARDWAY_JOIN=a:7946, b"},
		yamlFile("key:\n  - cookie:sid\njoin: c:1\nendpoint: [grpc=10.0.0.1:9000]\ntrusted_proxies: 10.1.2.3/8, ::1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"path:1", "ip", "host"}; !slices.Equal(c.Keys, want) {
		t.Errorf("Keys = %v, want %v", c.Keys, want)
	}
	if want := []string{"a:7946", "b"}; !slices.Equal(c.Join, want) {
		t.Errorf("Join = %v, want %v", c.Join, want)
	}
	if want := []config.Endpoint{{Name: "grpc", Address: "10.0.0.1:9000"}}; !slices.Equal(c.Endpoints, want) {
		t.Errorf("Endpoints = %v, want %v", c.Endpoints, want)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if !slices.Equal(c.TrustedProxies, want) {
		t.Errorf("TrustedProxies = %v, want %v", c.TrustedProxies, want)
	}
}

func TestSwitches(t *testing.T) {
	tests := []struct {
		args []string
		env  string
		want bool
	}{
		{nil, "", false},
		{[]string{"--debug-headers"}, "", true},
		{[]string{"--debug-headers=false"}, "true", false},
		{[]string{"--no-debug-headers"}, "true", false},
		{nil, "1", true},
	}
	for _, tt := range tests {
		c, err := config.Load(tt.args, []string{"SHARDWAY_DEBUG_HEADERS=" + tt.env}, files(nil))
		if err != nil || c.DebugHeaders != tt.want {
			t.Errorf("Load(%q, DEBUG_HEADERS=%q): DebugHeaders = %t, %v; want %t", tt.args, tt.env, c.DebugHeaders, err, tt.want)
		}
	}
}

func TestLongestRouteComesFirst(t *testing.T) {
	c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("routes:\n  /: ip\n  /api/v1: [header:X-Tenant, path:3]\n  /api: host\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Route{
		{Prefix: "/api/v1", Keys: []string{"header:X-Tenant", "path:3"}},
		{Prefix: "/api", Keys: []string{"host"}},
		{Prefix: "/", Keys: []string{"ip"}},
	}
	if !reflect.DeepEqual(c.Routes, want) {
		t.Errorf("Routes = %v, want %v", c.Routes, want)
	}
}

// Every key can be written in all three places, and what Values shows can be
// read again: one table drives all of them.
func TestEveryKeyWorksAsFlagVariableAndYAML(t *testing.T) {
	samples := map[string]string{
		"node": "a", "data": "/d", "upstream": "http://127.0.0.1:9000", "exec": "app {addr}", "exec-per": "shard", "exec-dir": "/e", "exec-ready": "/r", "exec-idle": "5m", "exec-max": "9", "max-upstream-conns": "7", "max-shard-conns": "3", "max-shard-inflight": "5", "shard-queue": "4", "max-key-inflight": "2", "key-limit": "rate=10/s; burst=20", "max-streams": "9", "health": "/h", "health-interval": "300ms", "health-timeout": "3s", "health-fall": "4", "health-rise": "2", "health-method": "POST", "health-host": "app.example:80", "health-header": "Accept: text/html, */*", "health-status": "200,3xx", "health-body": "ok, thanks", "hooks": "/hooks", "returns": "any", "weight": "3", "zone": "z", "region": "eu", "role": "app,db", "meta": "rack=r7,note=a b", "app-version": "2.1 b",
		"listen": ":80", "admin": "127.0.0.1:1", "gossip": "127.0.0.1:2", "gossip-advertise": "10.0.0.1:2", "peer": "[::1]:3", "peer-advertise": "10.0.0.1:3",
		"endpoint": "grpc=10.0.0.1:9", "probes": ":4", "probe-path": "/p", "join": "a:1,b", "bootstrap-expect": "3", "shards": "8", "replicas": "2", "spread-zones": "true", "max-voters": "3", "remove-dead-after": "1h", "join-approval": "manual", "join-timeout": "2h", "finalize-after": "2h", "registry": "true",
		"takeover": "timeout", "rebalance-mode": "stop-the-world", "key": "host,ip", "on-missing-key": "cookie", "cookie": "name=app-key; max-age=1h", "trusted-proxies": "10.0.0.0/8", "debug-headers": "true",
		"heartbeat": "50ms", "lease": "400ms", "dead-after": "3s", "raft-timeout": "1s", "drain-timeout": "6s", "release-timeout": "3s", "acquire-timeout": "2m", "stream-grace": "1s", "websocket-resume-timeout": "30s", "websockets": "close", "restart-grace": "2s", "on-shutdown": "hold", "hold-grace": "3s", "shutdown-timeout": "1m",
		"queue-requests": "5", "queue-bytes": "1MiB", "queue-wait": "20s", "body-buffer": "2KiB", "forwarded": "true",
		"max-header-bytes": "4KiB", "max-header-bytes-total": "1MiB", "max-body-total": "2MiB", "max-headers": "20", "max-uri": "1KiB", "max-body": "1GiB", "max-conns": "9", "header-timeout": "1s", "idle-timeout": "2s", "min-body-rate": "2KiB",
		"connect-timeout": "3s", "first-byte-timeout": "off", "upstream-idle-timeout": "4s", "total-timeout": "3m", "insecure": "true", "log-level": "warn", "log-format": "json",
		"secret-file": "/s", "tls-ca": "/ca", "tls-node-cert": "/c", "tls-node-key": "/k", "admin-read-token-file": "/r", "admin-write-token-file": "/w",
		"admin-cert": "/ac", "admin-key": "/ak", "admin-read-ca": "/rca", "admin-write-ca": "/wca", "admin-host": "node-1.example",
		"tls-cert": "/tc", "tls-key": "/tk", "lame-duck": "3s", "access-log": "/a.log", "access-log-keys": "true", "access-log-query": "true", "disable": "parking,splice", "webhook": "https://hub.example:8443",
	}
	// Files that are of use only together.
	beside := func(name string) []string {
		var all []string
		for _, prefix := range []string{"TLS_CA", "TLS_NODE_CERT", "TLS_NODE_KEY", "ADMIN_CERT", "ADMIN_KEY", "TLS_CERT", "TLS_KEY"} {
			if own := strings.ToUpper(strings.ReplaceAll(name, "-", "_")); own != prefix {
				all = append(all, "SHARDWAY_"+prefix+"=/x")
			}
		}
		if name == "cookie" {
			all = append(all, "SHARDWAY_ON_MISSING_KEY=cookie")
		}
		if strings.HasPrefix(name, "health-") {
			all = append(all, "SHARDWAY_HEALTH=/h")
		}
		if name == "shard-queue" {
			all = append(all, "SHARDWAY_MAX_SHARD_INFLIGHT=1")
		}
		return all
	}
	for _, f := range config.Flags() {
		if f.Name == "config" {
			continue
		}
		want, ok := samples[f.Name]
		if !ok {
			t.Errorf("no sample for %s", f.Name)
			continue
		}
		sources := map[string]func() (config.Config, error){
			"flag": func() (config.Config, error) {
				return config.Load([]string{"--" + f.Name + "=" + want}, beside(f.Name), files(nil))
			},
			"variable": func() (config.Config, error) {
				return config.Load(nil, append(beside(f.Name), f.Env+"="+want), files(nil))
			},
			"YAML": func() (config.Config, error) {
				return config.Load([]string{"--config=f.yaml"}, beside(f.Name), yamlFile(f.YAML+": "+quoted(want)+"\n"))
			},
		}
		for place, load := range sources {
			c, err := load()
			if err != nil {
				t.Errorf("%s as %s: %v", f.Name, place, err)
			}
			i := slices.IndexFunc(c.Values(), func(v config.Value) bool { return v.Key == f.Name })
			if v := c.Values()[i]; v.Value != want || v.Origin == "default" {
				t.Errorf("%s as %s = %q from %q, want %q", f.Name, place, v.Value, v.Origin, want)
			}
		}
	}
}

// quoted is s as it has to stand in YAML.
func quoted(s string) string {
	if strings.HasPrefix(s, "[") || strings.Contains(s, ": ") {
		return "'" + s + "'"
	}
	return s
}

func TestAdvertiseTakesThePortThatIsListenedOn(t *testing.T) {
	c, err := config.Load([]string{"--gossip-advertise", "10.0.0.5", "--peer-advertise=2001:db8::5"}, nil, files(nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.GossipAdvertise != "10.0.0.5:7946" || c.PeerAdvertise != "[2001:db8::5]:7947" {
		t.Errorf("advertised %q and %q", c.GossipAdvertise, c.PeerAdvertise)
	}
}

func TestUpstreamAddress(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"http://127.0.0.1:9000": "127.0.0.1:9000",
		"http://app/":           "app:80",
		"http://[::1]:9000":     "[::1]:9000",
		"unix:/run/app.sock":    "",
	} {
		c := config.Default()
		c.Upstream = in
		if err := c.Validate(); err != nil {
			t.Errorf("upstream %q: %v", in, err)
		}
		if got := c.UpstreamAddress(); got != want {
			t.Errorf("UpstreamAddress of %q = %q, want %q", in, got, want)
		}
	}
}

func TestHelpIsAskedFor(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"--node", "a", "-h"}} {
		if _, err := config.Load(args, nil, files(nil)); !errors.Is(err, config.ErrHelp) {
			t.Errorf("Load(%q): %v, want ErrHelp", args, err)
		}
	}
}

func TestForeignVariablesAreLeftAlone(t *testing.T) {
	// Kubernetes sets these for services called shardway, shardway-admin and
	// shardway-peer.
	env := []string{"SHARDWAY_SERVICE_HOST=1", "SHARDWAY_PORT=tcp://1", "SHARDWAY_PEER_PORT=1", "SHARDWAY_ADMIN_PORT_8081_TCP=x", "SHARDWAY_PEER_SERVICE_PORT_RAFT=1", "SHARDWAY_SOMETHING_ELSE_ENTIRELY=1", "NODE=1"}
	if _, err := config.Load(nil, env, files(nil)); err != nil {
		t.Error(err)
	}
}
