//go:build linux

package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestMintedKeysAreServedOnEveryNode creates an object without a key at each node, and
// reads it by its minted key at every node: the same app serves it.
func TestMintedKeysAreServedOnEveryNode(t *testing.T) {
	t.Parallel() // it waits for the cluster most of the time
	file := filepath.Join(t.TempDir(), "shardway.yaml")
	if err := os.WriteFile(file, []byte("routes:\n  /rooms: [mint]\n  /rooms/: [path:2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Shards: shards, Flags: []string{"--config", file}})
	c.AwaitServing(t) // a node prefers its own shards
	owners, appOfNode := map[string]bool{}, map[string]string{}
	for range 8 {
		for _, node := range c.Running() {
			made, at := askRoom(t, http.MethodPost, "http://"+node.Addr+"/rooms")
			if made.Get("Shardway-Minted") != "1" || len(made.Get("Shardway-Key")) != 32 {
				t.Fatalf("%v", made)
			}
			owners[at.App] = true
			if app, ok := appOfNode[node.ID]; ok && app != at.App {
				t.Errorf("node %s made rooms at %s and at %s", node.ID, app, at.App)
			}
			appOfNode[node.ID] = at.App
			for i, other := range c.Running() {
				found, there := askRoom(t, http.MethodGet, "http://"+other.Addr+"/rooms/"+made.Get("Shardway-Key"))
				if there.App != at.App || there.Key != made.Get("Shardway-Key") || there.Count != uint64(i)+2 || found.Get("Shardway-Minted") != "" {
					t.Errorf("%+v at %s, made as %+v: %v", there, other.ID, at, found)
				}
			}
		}
	}
	if len(owners) != 3 {
		t.Errorf("24 rooms are all at %v", owners)
	}
}

// TestMintAvoidsCordonedNodes creates rooms at each node while one node is cordoned. It
// owns none of them, and some of the rooms that are created after the cordon.
func TestMintAvoidsCordonedNodes(t *testing.T) {
	t.Parallel() // it waits for the cluster most of the time
	file := filepath.Join(t.TempDir(), "shardway.yaml")
	if err := os.WriteFile(file, []byte("routes:\n  /rooms: [mint]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Shards: shards, Flags: []string{"--config", file}})
	c.AwaitServing(t)
	cordoned := c.Node("a")
	var app string
	made := func(rounds int) (there int) {
		for range rounds {
			for _, node := range c.Running() {
				if _, at := askRoom(t, http.MethodPost, "http://"+node.Addr+"/rooms"); at.App == app {
					there++
				}
			}
		}
		return there
	}
	key := c.AwaitServing(t).Keys(cordoned.ID, 1)[0]
	app = appOf(t, c, key)
	if out, code := shardway(t, "cordon", cordoned.ID, "--admin", cordoned.Admin); code != 0 {
		t.Fatalf("cordon: exit %d, %s", code, out)
	}
	knows := func(node *cluster.Node) bool {
		out, code := shardway(t, "policy", "--admin", node.Admin)
		return code == 0 && strings.Contains(out, "cordon")
	}
	for _, node := range c.Running() {
		for !knows(node) {
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
	}
	if n := made(30); n != 0 {
		t.Errorf("%d of 90 rooms are at node %s, which is cordoned", n, cordoned.ID)
	}
	if out, code := shardway(t, "uncordon", cordoned.ID, "--admin", cordoned.Admin); code != 0 || !strings.Contains(out, "its cordon has ended") {
		t.Fatalf("uncordon: exit %d, %s", code, out)
	}
	if n := made(30); n == 0 {
		t.Errorf("none of 90 rooms is at node %s, which is not cordoned any more", cordoned.ID)
	}
}

// appOf returns the app that a request with a key reaches.
func appOf(t *testing.T, c *cluster.Cluster, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Running()[0].Addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Shard-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var at room
	if err := json.NewDecoder(resp.Body).Decode(&at); err != nil {
		t.Fatal(err)
	}
	return at.App
}

// room is the response of the app.
type room struct {
	App, Key string
	Count    uint64
}

func askRoom(t *testing.T, method, url string) (http.Header, room) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var at room
	if err := json.NewDecoder(resp.Body).Decode(&at); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d, %v", method, url, resp.StatusCode, err)
	}
	return resp.Header, at
}
