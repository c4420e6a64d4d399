//go:build linux

package e2e_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestPatternsAndJoinedKeysReachOneOwner sends requests with keys of patterns, joined keys and minted
// fallbacks to each node: requests with one key reach one app, and the command locate takes the same keys.
func TestPatternsAndJoinedKeysReachOneOwner(t *testing.T) {
	t.Parallel() // it waits for the cluster most of the time
	file := filepath.Join(t.TempDir(), "shardway.yaml")
	const keys = "key: [query:session, mint]\nroutes:\n  /api: ['path:/api/v4/projects/{key%}/*']\n  /git: ['path:/git/{key*}.git/…']\n  /rooms: [host+path:2]\n  /static: none\n"
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Shards: shards, Flags: []string{"--config", file}})
	c.AwaitServing(t)
	owners := map[string]string{} // app by key
	for path, key := range map[string]string{
		"/api/v4/projects/group%2Fapp": "group/app", "/api/v4/projects/group%2fapp/issues": "group/app", "/git/group/app.git/info/refs": "group/app",
		"/rooms/a+b": "127.0.0.1+a%2Bb", "/rooms/a%2bb/c": "127.0.0.1+a%2Bb", "/x?session=group/app": "group/app",
	} {
		for _, node := range c.Running() {
			_, at := askRoom(t, http.MethodGet, "http://"+node.Addr+path)
			if got, err := url.PathUnescape(at.Key); err != nil || got != key {
				t.Errorf("%s at %s has the key %q, want %q", path, node.ID, at.Key, key)
			}
			if owner, ok := owners[key]; ok && owner != at.App {
				t.Errorf("%s at %s is served by %s, and the key %q by %s", path, node.ID, at.App, key, owner)
			}
			owners[key] = at.App
		}
	}
	for _, node := range c.Running() {
		started, _ := askRoom(t, http.MethodPost, "http://"+node.Addr+"/x")
		if started.Get("Shardway-Minted") != "1" {
			t.Errorf("a session at %s: %v", node.ID, started)
		}
	}
	for key, app := range owners {
		out, code := shardway(t, "locate", key, "--admin", c.Running()[0].Admin)
		if code != 0 || !strings.Contains(out, key) {
			t.Errorf("locate %s (at %s): exit %d, %s", key, app, code, out)
		}
	}
}
