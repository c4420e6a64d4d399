package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/config"
	"shardway/node/process"
	"shardway/shardmap"
)

// A new cluster gets the services of the configuration. Requests reach the app of their service, with the
// shard that is counted within the service.
func TestNewClusterServesSeveralServices(t *testing.T) {
	calls := hookRecorder{acquired: map[string][]uint32{}}
	start := func(name string) string {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/_hooks/") {
				calls.record(t, name, r)
				return
			}
			_, _ = fmt.Fprintf(w, "%s %s %s", name, r.Header.Get("Shardway-Service"), r.Header.Get("Shardway-Shard"))
		}))
		t.Cleanup(app.Close)
		return app.URL
	}
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("data: " + filepath.Join(dir, "data") + "\nservices:\n" +
		"  chat: {routes: [chat.example.com, /chat], key: path:2, shards: 32, hooks: /_hooks, upstream: '" + start("A") + "'}\n" +
		"  default: {routes: [/], shards: 8, hooks: /_hooks, upstream: '" + start("B") + "'}\n")
	addrs := map[string]string{}
	names := []string{"listen", "peer", "admin", "gossip"}
	for port := 26400; len(addrs) < len(names); port++ { // below the range of ephemeral ports
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		name := names[len(addrs)]
		addrs[name] = addr
		text.WriteString(name + ": " + addr + "\n")
	}
	yaml := text.String()
	file := filepath.Join(dir, "shardway.yaml")
	load := func(content string) *config.Config {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load([]string{"--config=" + file}, nil, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	ctx, terminate := context.WithCancel(t.Context())
	p, err := process.New(ctx, load(yaml), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for _, tc := range []struct {
		path, key, want string
		shards          int
	}{{"/chat/tea", "", "A chat ", 32}, {"/tea", "tea", "B default ", 8}} {
		want := fmt.Sprint(tc.want, shardmap.ShardOf("tea", tc.shards))
		if got := getUntilServed(t, "http://"+addrs["listen"]+tc.path, tc.key); got != want {
			t.Errorf("%s: %q, want %q", tc.path, got, want)
		}
	}
	err = p.Reload(load(strings.Replace(yaml, "shards: 32", "shards: 16", 1)))
	if err == nil || !strings.Contains(err.Error(), "service chat has 32 shards in cluster") || !strings.Contains(err.Error(), "services.chat.shards is 16") {
		t.Errorf("reload with another number of shards: %v", err)
	}
	if err = p.Reload(load(strings.Replace(yaml, "upstream", "total_timeout: 1h, upstream", 1))); err != nil {
		t.Errorf("reload: %v", err)
	}
	calls.checkAcquired(t, map[string]uint32{"A chat": 32, "B default": 8})
	checkServiceActions(t, addrs["admin"])
	terminate()
	if err = <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// checkServiceActions adds and removes a service at the admin port, and checks where the routes of the proxy lead.
func checkServiceActions(t *testing.T, addr string) {
	t.Helper()
	node, err := client.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	location, err := node.LocateIn(t.Context(), client.LocateQuery{Key: "tea", Host: "example.com", Path: "/chat/tea"})
	if err != nil || location.Service != "chat" || *location.ServiceShard != uint32(shardmap.ShardOf("tea", 32)) || location.Owner == "" {
		t.Errorf("locate: %+v, %v", location, err)
	}
	for _, tc := range []struct {
		action api.Action
		want   string // of the error; empty means success
	}{
		{api.Action{Verb: api.AddService, Service: "search", Shards: 16}, ""},
		{api.Action{Verb: api.AddService, Service: "search", Shards: 8}, "shards = 8, but service search has 16"},
		{api.Action{Verb: api.RemoveService, Service: "chat"}, `service-in-use: remove-service: refused: service = "chat" is in the active key configuration`},
		{api.Action{Verb: api.RemoveService, Service: "search"}, ""},
		{api.Action{Verb: api.RemoveService, Service: "search"}, "unknown-service"},
	} {
		_, err := node.Do(t.Context(), tc.action)
		if tc.action.Verb == api.AddService && tc.want == "" {
			awaitMapWith(t, node, 56)
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s %s: %v, want %q", tc.action.Verb, tc.action.Service, err, tc.want)
		}
	}
	checkShardCounts(t, node)
}

// awaitMapWith waits until the shard map has the given number of shards.
func awaitMapWith(t *testing.T, node *client.Client, shards int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		shardMap, err := node.Map(t.Context())
		if err == nil && shardMap.Shards == shards {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("map with %d shards: %v", shardMap.Shards, err)
		}
	}
}

// checkShardCounts checks that the numbers of shards omit a removed service, although the map keeps its range.
func checkShardCounts(t *testing.T, node *client.Client) {
	t.Helper()
	status, err := node.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := status.Shards
	if counts.Total != 40 || counts.Owned != 40 || counts.Orphaned != 0 || counts.Unavailable != 0 || status.ClusterState != "single-node" {
		t.Errorf("status: %+v, cluster %s: %s", counts, status.ClusterState, status.ClusterReason)
	}
	list, err := node.Shards(t.Context(), "")
	if err != nil || list.Total != 40 || len(list.Shards) != 40 {
		t.Errorf("%d of %d shards, %v", len(list.Shards), list.Total, err)
	}
}

// hookRecorder records the hook calls to the apps. The shards of all services have equal numbers.
type hookRecorder struct {
	mu       sync.Mutex
	acquired map[string][]uint32 // shards of acquire calls, by app and service
}

// record records a call to the app with the name.
func (h *hookRecorder) record(t *testing.T, app string, r *http.Request) {
	t.Helper()
	var body struct{ Shards []struct{ Shard uint32 } }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Error(err)
	}
	key := app + " " + r.Header.Get("Shardway-Service")
	if r.Header.Get("Shardway-Hook") == "" || key != "A chat" && key != "B default" {
		t.Errorf("%s for %q", r.URL, key)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, shard := range body.Shards {
		if r.URL.Path == "/_hooks/acquire" {
			h.acquired[key] = append(h.acquired[key], shard.Shard)
		}
	}
}

// checkAcquired waits until each app has acquired each shard of its service. No app may acquire another shard.
func (h *hookRecorder) checkAcquired(t *testing.T, shards map[string]uint32) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		h.mu.Lock()
		complete := true
		for key, count := range shards {
			got := slices.Compact(slices.Sorted(slices.Values(h.acquired[key])))
			complete = complete && len(got) == int(count)
			if len(got) > 0 && got[len(got)-1] >= count {
				t.Errorf("%s acquires shard %d of %d", key, got[len(got)-1], count)
			}
		}
		text := fmt.Sprint(h.acquired)
		h.mu.Unlock()
		if complete {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("acquired: %s", text)
		}
	}
}

// getUntilServed repeats a request until its status is 200, and returns the body.
func getUntilServed(t *testing.T, url, key string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Shard-Key", key)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil && response.StatusCode == http.StatusOK {
			return string(body)
		}
	}
	t.Fatal("not served in time")
	return ""
}
