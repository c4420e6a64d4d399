//go:build linux

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/cluster"
)

// eventHub is a receiver of the events of all nodes.
type eventHub struct {
	*httptest.Server

	mu    sync.Mutex
	kinds map[string]bool // the sources and types of the events
}

// newEventHub starts a receiver that accepts only requests with a token.
func newEventHub(t *testing.T, token string) *eventHub {
	t.Helper()
	hub := &eventHub{kinds: map[string]bool{}}
	hub.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var events []struct{ Source, Type string }
		if err := json.NewDecoder(r.Body).Decode(&events); err != nil || r.URL.Query().Get("t") != token || r.Header.Get("Content-Type") != "application/cloudevents-batch+json; charset=utf-8" {
			http.Error(w, "not an authorized batch", http.StatusForbidden)
			return
		}
		hub.mu.Lock()
		defer hub.mu.Unlock()
		for _, e := range events {
			hub.kinds[e.Source+" "+e.Type] = true
		}
	}))
	t.Cleanup(hub.Close)
	return hub
}

// await waits until the events with these sources and types have arrived.
func (h *eventHub) await(t *testing.T, events ...string) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("the events %q", events), func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, e := range events {
			if !h.kinds[e] {
				return errors.New("no " + e)
			}
		}
		return nil
	})
}

// TestWebhookReceivesEventsOfAllNodes sends the events of two nodes to a receiver. SIGHUP moves one node to another
// receiver, which gets the last events of the node when it stops. No log contains the token.
func TestWebhookReceivesEventsOfAllNodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	first, second := newEventHub(t, "first-token"), newEventHub(t, "second-token")
	if err := os.WriteFile(file, []byte("webhook: "+first.URL+"/in?t=first-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, 2, "--config", file)
	c.AwaitServing(t)
	for _, node := range c.Nodes() {
		source := "shardway://node/" + node.ID + " shardway."
		first.await(t, source+"leader-elected", source+"map-committed", source+"join-completed", source+"shards-moved")
	}
	node := c.Nodes()[1]
	reloadConfig(t, node, file, "webhook: "+second.URL+"/in?t=second-token\n", "settings reloaded", `"changed":["webhook"]`)
	node.Stop(t)
	second.await(t, "shardway://node/"+node.ID+" shardway.map-committed")
	for _, n := range c.Nodes() {
		log, err := os.ReadFile(n.Process().Log)
		if err != nil || strings.Contains(string(log), "-token") {
			t.Errorf("the log of %s contains a token, or %v", n.ID, err)
		}
	}
}
