//go:build linux

package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// keyRecorder records the owner of each key, and which requests run at the same time.
type keyRecorder struct {
	mu      sync.Mutex
	owner   map[string]string // by key
	running map[string]int    // requests by the first letter of their key
	faults  []string
	served  map[string]int // by the first letter
}

func (k *keyRecorder) app(id string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		key := req.Header.Get("Shardway-Key")
		if key == "" {
			return // a health check
		}
		reading := key[:1]
		k.mu.Lock()
		if before := k.owner[key]; before != "" && before != id {
			k.faults = append(k.faults, fmt.Sprintf("key %s ran at %s and at %s", key, before, id))
		}
		k.owner[key] = id
		for other, n := range k.running {
			if other != reading && n > 0 {
				k.faults = append(k.faults, fmt.Sprintf("%d requests keyed by %s run while %s begins", n, other, key))
			}
		}
		k.running[reading]++
		k.served[reading]++
		k.mu.Unlock()
		time.Sleep(10 * time.Millisecond) // the work of the app
		k.mu.Lock()
		k.running[reading]--
		k.mu.Unlock()
		_, _ = io.WriteString(w, key)
	})
}

// TestKeySourceChangesOnAllNodesAtOnce changes the key by SIGHUP on one node after
// another, under load. No request fails, no key has two owners, and requests with the old
// key source never overlap requests with the new one.
func TestKeySourceChangesOnAllNodesAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("key: [header:X-A]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	recorder := &keyRecorder{owner: map[string]string{}, running: map[string]int{}, served: map[string]int{}}
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Flags: []string{"--config", file}})
	for i := range 3 {
		app := httptest.NewServer(recorder.app(fmt.Sprint("app", i)))
		t.Cleanup(app.Close)
		c.Prepare(t, "--bootstrap-expect", "3", "--upstream", app.URL)
	}
	c.AddJoinFlags()
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	c.AwaitServing(t)
	nodes := c.Nodes()
	w := diagnosisTest{t, c}

	stop, failures := make(chan struct{}), make(chan string, 1000)
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := askKeyed(t, nodes[(i+n)%3].Addr, strconv.Itoa((i*31+n)%40)); err != nil {
					failures <- err.Error()
					return
				}
			}
		})
	}
	active := func(node *cluster.Node) string {
		_, body := w.get(node.Admin, "/status", "Accept", "application/json")
		return body
	}
	hasActive := func(node *cluster.Node, header string) bool { return strings.Contains(active(node), `header:`+header) }

	const next = "key: [header:X-B]\n"
	for i, node := range nodes {
		reloadConfig(t, node, file, next, "settings reloaded", `"changed":["key"]`)
		if i < 2 && !hasActive(nodes[0], "x-a") {
			t.Errorf("after %d of 3 nodes the new key is active", i+1)
		}
	}
	for _, node := range nodes {
		cluster.Await(t, "the new key is active", func() error {
			if !hasActive(node, "x-b") {
				return fmt.Errorf("%s", active(node))
			}
			return nil
		})
	}
	cluster.Await(t, "requests by the new key", func() error {
		recorder.mu.Lock()
		defer recorder.mu.Unlock()
		if recorder.served["b"] < 200 {
			return fmt.Errorf("%v", recorder.served)
		}
		return nil
	})
	close(stop)
	clients.Wait()
	close(failures)
	for f := range failures {
		t.Error(f)
	}
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	for i, f := range recorder.faults[:min(len(recorder.faults), 5)] {
		t.Errorf("%d of %d: %s", i+1, len(recorder.faults), f)
	}
	t.Logf("served %v", recorder.served)
}

// askKeyed sends a request that has a key for both configurations.
func askKeyed(t *testing.T, addr, id string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("X-A", "a"+id)
	req.Header.Set("X-B", "b"+id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return err
}
