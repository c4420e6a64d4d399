//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// TestShardQueueRunsRequestsOneByOne limits a shard, and then a key, to one request at a time, with a queue. Requests
// through all nodes wait at the owner until the first one has ended.
func TestShardQueueRunsRequestsOneByOne(t *testing.T) {
	for _, limit := range []string{"--max-shard-inflight", "--max-key-inflight"} {
		t.Run(limit, func(t *testing.T) { testQueueRunsRequestsOneByOne(t, limit) })
	}
}

func testQueueRunsRequestsOneByOne(t *testing.T, limit string) {
	t.Helper()
	c := start(t, 2, limit, "1", "--shard-queue", "8")
	owner, other := c.Nodes()[0], c.Nodes()[1]
	key := c.AwaitServing(t).Keys(owner.ID, 1)[0]
	first := c.SendAsync(t, other, load.Request{Key: key, Header: map[string]string{"App-Hang": "gate"}})
	owner.App.AwaitHanging(t, "gate", 1)
	var queued []*cluster.AsyncRequest
	for i, node := range []*cluster.Node{owner, other, other} {
		queued = append(queued, c.SendAsync(t, node, load.Request{Key: key, Method: "POST", ID: "queued " + strconv.Itoa(i)}))
	}
	cluster.Await(t, "the requests wait at the owner", func() error {
		if waiting := c.Sum(t, []*cluster.Node{owner}, "shardway_queue_requests"); waiting != float64(len(queued)) {
			return fmt.Errorf("%v requests wait", waiting)
		}
		return nil
	})
	for i := range queued {
		if ran := owner.App.Executions(t, "queued "+strconv.Itoa(i)); ran != 0 {
			t.Errorf("queued request %d ran %d times beside the first one", i, ran)
		}
	}
	owner.App.Release(t, "gate")
	if resp := first.Response(t); !resp.OK() {
		t.Errorf("the first one: %d %s", resp.Status, resp.Error)
	}
	for i, request := range queued {
		if resp := request.Response(t); !resp.OK() {
			t.Errorf("queued request %d: %d %s", i, resp.Status, resp.Error)
		}
		if ran := owner.App.Executions(t, "queued "+strconv.Itoa(i)); ran != 1 {
			t.Errorf("queued request %d ran %d times", i, ran)
		}
	}
}

// TestKeyLimitHoldsThroughAllNodes limits the rate of each key. The limit holds for requests through all
// nodes together, and refused requests do not run.
func TestKeyLimitHoldsThroughAllNodes(t *testing.T) {
	c := start(t, 2, "--key-limit", "rate=1/h; burst=3")
	owner, other := c.Nodes()[0], c.Nodes()[1]
	keys := c.AwaitServing(t).Keys(owner.ID, 2)
	served := 0
	for i := range 8 {
		node := []*cluster.Node{owner, other}[i%2]
		id := "limited " + strconv.Itoa(i)
		resp := c.SendAsync(t, node, load.Request{Key: keys[0], Method: "POST", ID: id}).Response(t)
		ran := owner.App.Executions(t, id)
		switch {
		case resp.OK() && ran == 1:
			served++
		case resp.Status == 429 && resp.Error == "rate-limited" && ran == 0:
		default:
			t.Errorf("request %d: %d %s, and ran %d times", i, resp.Status, resp.Error, ran)
		}
	}
	if served != 3 {
		t.Errorf("%d requests of the key were served, want 3", served)
	}
	if resp := c.SendAsync(t, other, load.Request{Key: keys[1]}).Response(t); !resp.OK() {
		t.Errorf("another key: %d %s", resp.Status, resp.Error)
	}
}

// TestRouteSettingsAreReloaded gives a path a limit for each key and a short timeout. Both apply to requests
// through all nodes. SIGHUP removes them.
func TestRouteSettingsAreReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	const routes = "routes:\n  /once: {key_limit: rate=1/h; burst=1}\n  /quick: {first_byte_timeout: 300ms}\n"
	if err := os.WriteFile(file, []byte(routes), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, 2, "--config", file)
	owner, other := c.Nodes()[0], c.Nodes()[1]
	key := c.AwaitServing(t).Keys(owner.ID, 1)[0]
	for i, want := range []int{200, 429, 429} {
		node := []*cluster.Node{other, owner}[i%2]
		if resp := c.SendAsync(t, node, load.Request{Key: key, Path: "/once/" + strconv.Itoa(i)}).Response(t); resp.Status != want {
			t.Errorf("request %d below the limited path: %d %s, want %d", i, resp.Status, resp.Error, want)
		}
	}
	hang := map[string]string{"App-Hang": "gate"}
	if resp := c.SendAsync(t, other, load.Request{Key: key, Path: "/quick", Header: hang}).Response(t); resp.Status != 504 {
		t.Errorf("a request that hangs below the path with a timeout: %d %s, want 504", resp.Status, resp.Error)
	}
	if resp := c.SendAsync(t, other, load.Request{Key: key, Path: "/other"}).Response(t); !resp.OK() {
		t.Errorf("another path: %d %s", resp.Status, resp.Error)
	}
	reloadConfig(t, owner, file, "{}\n", "settings reloaded", `"changed":["routes"]`)
	if resp := c.SendAsync(t, other, load.Request{Key: key, Path: "/once"}).Response(t); !resp.OK() {
		t.Errorf("without the route: %d %s", resp.Status, resp.Error)
	}
	owner.App.Release(t, "gate")
}

// TestHeaderRulesAndTotalTimeoutAreReloaded gives a path header rules and a total timeout. They apply once to
// requests through all nodes. SIGHUP removes them.
func TestHeaderRulesAndTotalTimeoutAreReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	const settings = "headers:\n  response: {add: {X-Added: all}}\nroutes:\n  /quick:\n    total_timeout: 300ms\n    headers: {response: {add: {X-Added: route}}}\n"
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, 2, "--config", file)
	owner, other := c.Nodes()[0], c.Nodes()[1]
	key := c.AwaitServing(t).Keys(owner.ID, 1)[0]
	added := func(node *cluster.Node, path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+node.Addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Shard-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s through %s: %s", path, node.ID, resp.Status)
		}
		return strings.Join(resp.Header.Values("X-Added"), ",")
	}
	for _, node := range c.Nodes() {
		for path, want := range map[string]string{"/": "all", "/quick": "all,route"} {
			if got := added(node, path); got != want {
				t.Errorf("%s through %s: the rules added %q, want %q", path, node.ID, got, want)
			}
		}
		hang := map[string]string{"App-Hang": "gate"}
		if resp := c.SendAsync(t, node, load.Request{Key: key, Path: "/quick", Header: hang}).Response(t); resp.Status != 504 || resp.Error != "upstream-timeout" {
			t.Errorf("a request that hangs, through %s: %d %s, want 504 upstream-timeout", node.ID, resp.Status, resp.Error)
		}
	}
	reloadConfig(t, owner, file, "{}\n", "settings reloaded", `"changed":["routes","headers"]`)
	if got := added(other, "/quick"); got != "" {
		t.Errorf("without rules: %q", got)
	}
	owner.App.Release(t, "gate")
}

// TestShardInflightIsReloaded limits the number of concurrent requests of one shard,
// through any node. Excess requests are refused at once and do not run. SIGHUP removes
// the limit.
func TestShardInflightIsReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("max_shard_inflight: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, 2, "--config", file)
	owner, other := c.Nodes()[0], c.Nodes()[1]
	key := c.AwaitServing(t).Keys(owner.ID, 1)[0]
	hang := map[string]string{"App-Hang": "gate"}
	hung := []*cluster.AsyncRequest{
		c.SendAsync(t, owner, load.Request{Key: key, Header: hang}),
		c.SendAsync(t, other, load.Request{Key: key, Header: hang}),
	}
	owner.App.AwaitHanging(t, "gate", 2)
	for _, node := range c.Nodes() {
		resp := c.SendAsync(t, node, load.Request{Key: key, Method: "POST", ID: "refused by " + node.ID}).Response(t)
		if resp.Status != 503 || resp.Error != "shard-busy" {
			t.Errorf("beyond the limit, by %s: %d %s, want 503 shard-busy", node.ID, resp.Status, resp.Error)
		}
		if ran := owner.App.Executions(t, "refused by "+node.ID); ran != 0 {
			t.Errorf("refused by %s, and ran %d times", node.ID, ran)
		}
	}
	reloadConfig(t, owner, file, "{}\n", "settings reloaded", `"changed":["max-shard-inflight"]`)
	if resp := c.SendAsync(t, other, load.Request{Key: key}).Response(t); !resp.OK() {
		t.Errorf("without a limit: %d %s", resp.Status, resp.Error)
	}
	owner.App.Release(t, "gate")
	for _, request := range hung {
		if resp := request.Response(t); !resp.OK() {
			t.Errorf("one that hung: %d %s", resp.Status, resp.Error)
		}
	}
}
