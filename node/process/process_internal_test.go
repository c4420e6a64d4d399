package process

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/config"
	"shardway/node/apphealth"
	"shardway/proxy"
)

// parseConfig returns the settings for these flags.
func parseConfig(t *testing.T, args ...string) *config.Config {
	t.Helper()
	c, err := config.Load(args, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestConfigIsConvertedToNodeOptions(t *testing.T) {
	c := parseConfig(t,
		"--weight=3", "--zone=z", "--region=eu", "--role=app", "--role=db", "--meta=rack=r7", "--app-version=v 2", "--upstream=http://127.0.0.1:9000", "--max-upstream-conns=7", "--max-voters=3", "--bootstrap-expect=2", "--shards=64", "--replicas=2", "--spread-zones", "--join=127.0.0.1:1",
		"--remove-dead-after=1h", "--finalize-after=2h", "--registry", "--shutdown-timeout=40s", "--heartbeat=50ms", "--lease=400ms", "--dead-after=3s", "--raft-timeout=1500ms", "--drain-timeout=6s", "--restart-grace=1s",
		"--hooks=/hooks", "--release-timeout=3s", "--acquire-timeout=5m",
		"--stream-grace=2s", "--takeover=timeout", "--rebalance-mode=stop-the-world", "--queue-requests=5", "--queue-bytes=1MiB", "--queue-wait=20s", "--body-buffer=2KiB",
		"--max-shard-inflight=5", "--shard-queue=2", "--max-key-inflight=3", "--key-limit=rate=2/s", "--health-interval=300ms", "--health-timeout=3s", "--health-fall=4", "--health-rise=2",
		"--debug-headers", "--forwarded", "--max-header-bytes=4KiB", "--max-header-bytes-total=1MiB", "--max-body-total=2MiB", "--max-headers=30", "--max-uri=1KiB", "--max-body=1GiB", "--max-conns=9", "--header-timeout=1s",
		"--idle-timeout=2s", "--connect-timeout=3s", "--first-byte-timeout=off", "--upstream-idle-timeout=4s", "--trusted-proxies=10.0.0.0/8", "--probe-path=/p", "--gossip=127.0.0.1:17946", "--gossip-advertise=127.0.0.2",
	)
	o, err := nodeOptions(t.Context(), c, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]bool{
		"weight": o.Weight == 3, "zone": o.Zone == "z", "region": o.Region == "eu", "roles": slices.Equal(o.Roles, []string{"app", "db"}), "metadata": len(o.Meta) == 1 && o.Meta["rack"] == "r7", "app version": o.AppVersion == "v 2", "gateway": !o.Gateway, "max voters": o.MaxVoters == 3, "bootstrap expect": o.BootstrapExpect == 2, "shards": o.Shards == 64,
		"standbys": len(o.Replicas) == 1 && o.Replicas[ack.DefaultService] == 2, "spread over zones": o.SpreadZones,
		"join": slices.Equal(o.Join, []string{"127.0.0.1:1"}), "dead server": o.RemoveDeadAfter == time.Hour, "raft": o.RaftTimeout == 1500*time.Millisecond, "level": o.FinalizeAfter == 2*time.Hour, "registry": o.Registry, "shutdown": o.ShutdownTimeout == 40*time.Second,
		"timing": o.Timing == ack.Timing{Lease: 400 * time.Millisecond, DeadAfter: 3 * time.Second, Takeover: ack.TakeoverTimeout, RebalanceMode: ack.RebalanceStopTheWorld},
		"pace":   o.Pace == ack.Pace{Heartbeat: 50 * time.Millisecond, DrainTimeout: 6 * time.Second, RestartGrace: time.Second},
		"health": o.Health == apphealth.Settings{Interval: 300 * time.Millisecond, Timeout: 3 * time.Second, Fall: 4, Rise: 2},
		"queue":  o.Queue.Requests == 5 && o.Queue.Bytes == 1<<20 && o.Queue.Wait == 20*time.Second && o.Queue.CPUUsage != nil,
		"gossip": o.GossipBind == "127.0.0.1:17946" && o.GossipAdvertise == "127.0.0.2:17946",
		"proxy":  o.Proxy.MaxUpstreamConns == 7 && o.Proxy.BodyBuffer == 2<<10 && o.Proxy.StreamGrace == 2*time.Second && o.Proxy.DebugHeaders && o.Proxy.ProbePath == "/p",
		"limits": o.Proxy.MaxHeaderBytes == 4<<10 && o.Proxy.MaxHeaderBytesTotal == 1<<20 && o.Proxy.MaxBodyTotal == 2<<20 && o.Proxy.MaxHeaders == 30 && o.Proxy.MaxURI == 1<<10 && o.Proxy.MaxBody == 1<<30 && o.Proxy.MaxConns == 9 && o.Proxy.MaxShardInflight == 5 && o.Proxy.ShardQueue == 2 && o.Proxy.MaxKeyInflight == 3 && o.Proxy.KeyLimit.Burst == 2,
		"waits": o.Proxy.HeaderTimeout == time.Second && o.Proxy.IdleTimeout == 2*time.Second && o.Proxy.ConnectTimeout == 3*time.Second &&
			o.Proxy.FirstByteTimeout < 0 && o.Proxy.UpstreamIdleTimeout == 4*time.Second,
		"forwarded": o.Proxy.Forwarded,
		"hooks":     o.Proxy.HookPath == "/hooks" && o.ReleaseTimeout == 3*time.Second && o.AcquireTimeout == 5*time.Minute,
		"trust":     slices.Equal(o.Proxy.TrustedProxies, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}),
		"app":       o.Proxy.DialUpstream != nil && o.CheckApp != nil,
		"keys":      o.Proxy.Keys != nil, "clock": o.Clock != nil,
	}
	for name, ok := range checks {
		if !ok {
			t.Errorf("%s does not reach the node", name)
		}
	}
}

func TestGatewayHasNoUpstream(t *testing.T) {
	o, err := nodeOptions(t.Context(), parseConfig(t), zerolog.Nop())
	if err != nil || !o.Gateway || o.Proxy.DialUpstream != nil || o.CheckApp != nil {
		t.Errorf("a gateway is made with an app: %v", err)
	}
}

func TestAnnouncedEndpointsUseReachableAddresses(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want map[string]string
	}{
		{"on one machine", nil, map[string]string{"peer": "127.0.0.1:7947", "http": "127.0.0.1:8080", "admin": "127.0.0.1:8081"}},
		{
			"among machines",
			[]string{"--insecure", "--peer=:7947", "--peer-advertise=10.0.0.5", "--endpoint=grpc=10.0.0.5:9"},
			map[string]string{"peer": "10.0.0.5:7947", "http": "10.0.0.5:8080", "grpc": "10.0.0.5:9"}, // admin is on loopback
		},
		{
			"each on its own",
			[]string{"--insecure", "--peer=10.0.0.5:7947", "--listen=10.0.0.6:80", "--admin=[2001:db8::7]:81"},
			map[string]string{"peer": "10.0.0.5:7947", "http": "10.0.0.6:80", "admin": "[2001:db8::7]:81"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := announcedEndpoints(t.Context(), parseConfig(t, tt.args...))
			if err != nil || !maps.Equal(got, tt.want) {
				t.Errorf("announced %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestEachOptimizationCanBeDisabled(t *testing.T) {
	for name, want := range map[string]proxy.Optimizations{
		"event-loop": {EventLoop: true}, "multiplexing": {Multiplexing: true}, "parking": {Parking: true}, "splice": {Splice: true},
	} {
		o, err := nodeOptions(t.Context(), parseConfig(t, "--disable="+name), zerolog.Nop())
		if err != nil || o.Proxy.Disable != want {
			t.Errorf("--disable %s: %+v, %v, want %+v", name, o.Proxy.Disable, err, want)
		}
	}
}
