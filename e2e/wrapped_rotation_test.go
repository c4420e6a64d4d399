//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/internal/secret"
)

// session is a session of a client with an app that creates session ids. The route wraps the cookie sid.
type session struct {
	cookie string // value of the cookie that the client stores
	key    string
	id     string // the app's own session id
}

// visit sends a request of the session to a node. With renew, the app sets a new session id. The result is the
// problem code of a response without status 200.
func (s *session) visit(t *testing.T, node *cluster.Node, renew string) (problemCode string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+node.Addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.cookie != "" {
		req.Header.Set("Cookie", "sid="+s.cookie)
	}
	if renew != "" {
		req.Header.Set("App-Set-Cookie", "sid="+renew)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Header.Get("Shardway-Error")
	}
	key := resp.Header.Get("App-Key")
	switch {
	case s.key == "":
		s.key = key
	case key != s.key || resp.Header.Get("App-Cookie") != "sid="+s.id:
		t.Fatalf("node %s, key %q, cookie %q; want key %q and session id %q", node.ID, key, resp.Header.Get("App-Cookie"), s.key, s.id)
	}
	if renew != "" {
		s.cookie, s.id = strings.TrimPrefix(resp.Header.Get("Set-Cookie"), "sid="), renew
	}
	return ""
}

// TestWrappedSessionsSurviveRotation replaces the secret in three steps. While the nodes accept both secrets, no
// session is lost, at any node. After the last step, a session continues if the app has renewed its id since the
// second step. Other sessions get 400 and no other key.
func TestWrappedSessionsSurviveRotation(t *testing.T) {
	t.Parallel() // it waits for the nodes to read their files most of the time
	file := filepath.Join(t.TempDir(), "shardway.yaml")
	if err := os.WriteFile(file, []byte("key: wrap:cookie:sid\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startWithSecret(t, "--config", file)
	c.AwaitServing(t)
	old, err := secret.ReadFile(c.SecretFile("a"))
	if err != nil {
		t.Fatal(err)
	}
	next := secret.List{secret.Generate(time.Now())}
	var renewed, unchanged []*session
	for i, node := range c.Running() {
		for _, list := range []*[]*session{&renewed, &unchanged} {
			s := &session{}
			if code := s.visit(t, node, fmt.Sprint("v", i)); code != "" || !strings.Contains(s.cookie, ".sw-") {
				t.Fatalf("a new session: %q, %+v", code, s)
			}
			*list = append(*list, s)
		}
	}
	count := 0
	visitAll := func() {
		for _, node := range c.Running() {
			for _, s := range unchanged {
				if code := s.visit(t, node, ""); code != "" {
					t.Fatalf("a session of the old secret at node %s: %s", node.ID, code)
				}
			}
			for _, s := range renewed {
				count++
				if code := s.visit(t, node, fmt.Sprint("w", count)); code != "" {
					t.Fatalf("a renewed session at node %s: %s", node.ID, code)
				}
			}
		}
	}
	changes := 0
	install := func(list secret.List, visit func()) {
		changes++
		for _, node := range c.Running() {
			if err := secret.WriteFile(c.SecretFile(node.ID), list); err != nil {
				t.Fatal(err)
			}
		}
		cluster.Await(t, "all nodes have read their secrets", func() error {
			visit()
			for _, node := range c.Running() {
				log, err := os.ReadFile(filepath.Join(c.Dir(), "node-"+node.ID+".log"))
				if n := strings.Count(string(log), "secret file changed"); err != nil || n < changes {
					return fmt.Errorf("node %s has read %d of %d files, %w", node.ID, n, changes, err)
				}
			}
			return nil
		})
		visit()
	}
	install(secret.List{old[0], next[0]}, visitAll)
	install(secret.List{next[0], old[0]}, visitAll)
	install(next, func() {})
	for _, node := range c.Running() {
		for _, s := range renewed {
			if code := s.visit(t, node, ""); code != "" {
				t.Errorf("a renewed session at node %s: %s", node.ID, code)
			}
		}
		for _, s := range unchanged {
			if code := s.visit(t, node, ""); code != "no-key" {
				t.Errorf("a session of the removed secret at node %s: %q, want no-key", node.ID, code)
			}
		}
	}
	// The command performs the same steps, so the app must renew its session ids.
	if out, code := shardway(t, "rotate-secret", "--admin", c.Leader(t).Admin); code != 0 {
		t.Fatalf("rotate-secret: exit %d: %s", code, out)
	}
	for i, s := range renewed {
		if code := s.visit(t, c.Running()[i], ""); code != "no-key" {
			t.Errorf("a session of the replaced secret: %q, want no-key", code)
		}
		s = &session{}
		if code := s.visit(t, c.Running()[i], "new"); code != "" {
			t.Errorf("a new session: %s", code)
		}
	}
}
