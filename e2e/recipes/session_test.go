//go:build linux

package recipes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// visit is the response of the apps of these recipes: how often the session was used, and the node whose instance
// keeps the session.
type visit struct {
	Count    int    `json:"count"`
	Instance string `json:"instance"`
	// Cookie is the Cookie header that the app has received.
	Cookie string `json:"cookie"`
}

// browser is a client with a cookie jar. The jar returns cookies to all nodes, because they have one host
// name.
type browser struct {
	client *http.Client
	last   visit
	used   int // number of requests so far
}

// browsers returns n clients without sessions.
func browsers(t *testing.T, n int) []*browser {
	t.Helper()
	list := make([]*browser, n)
	for i := range list {
		jar, err := cookiejar.New(nil)
		must(t, err)
		list[i] = &browser{client: &http.Client{Jar: jar, Timeout: 30 * time.Second}, used: i}
	}
	return list
}

// visit sends one request through the next of the nodes, and returns the response.
func (b *browser) visit(ctx context.Context, addrs []string, path string) (visit, error) {
	b.used++
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addrs[b.used%len(addrs)]+path, http.NoBody)
	if err != nil {
		return visit{}, err
	}
	res, err := b.client.Do(req)
	if err != nil {
		return visit{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return visit{}, err
	}
	var seen visit
	if err := json.Unmarshal(body, &seen); err != nil || res.StatusCode != http.StatusOK {
		return visit{}, fmt.Errorf("%s: %.300s", res.Status, body)
	}
	if strings.Contains(seen.Cookie, ".sw-") {
		return visit{}, fmt.Errorf("the app has received the suffix: %s", seen.Cookie)
	}
	return seen, nil
}

// keepSession visits the app several times. The session must continue at one instance. mayBegin permits that the first
// visit begins a new session, because the owner of the key has changed.
func (b *browser) keepSession(t *testing.T, addrs []string, path string, mayBegin bool) {
	t.Helper()
	for i := range 3 {
		seen, err := b.visit(t.Context(), addrs, path)
		if err != nil {
			t.Error(err)
			return
		}
		begins := mayBegin && i == 0 && seen.Count == 1
		continues := seen.Count == b.last.Count+1 && seen.Instance == b.last.Instance
		if !begins && !continues {
			t.Errorf("the session continues with %+v after %+v", seen, b.last)
		}
		b.last = seen
	}
}

// checkSessions runs the recipe of an app that keeps sessions in its own memory or files: a rolling restart of the
// nodes keeps every session, and a drain and the crash of a node move only the sessions of this node.
func checkSessions(t *testing.T, w *world, path string) {
	t.Helper()
	clients := browsers(t, 12)
	visitAll := func(mayBegin func(b *browser) bool) {
		t.Helper()
		for _, b := range clients {
			b.keepSession(t, cluster.Addrs(w.Running()), path, mayBegin(b))
		}
	}
	always, never := func(*browser) bool { return true }, func(*browser) bool { return false }
	of := func(owner *cluster.Node) func(*browser) bool {
		return func(b *browser) bool { return b.last.Instance == owner.ID }
	}
	visitAll(always) // each client begins a session
	instances := map[string]int{}
	for _, b := range clients {
		instances[b.last.Instance]++
	}
	if len(instances) < 2 {
		t.Fatalf("the sessions of %d clients are at %v", len(clients), instances)
	}
	w.restartNodes(t, func(addrs []string) {
		for _, b := range clients {
			b.keepSession(t, addrs, path, false)
		}
	})
	visitAll(never)
	drained := w.Node(clients[0].last.Instance)
	w.drain(t, drained)
	visitAll(of(drained))
	w.uncordon(t, drained)
	visitAll(always) // some shards return
	killed := w.Node(clients[0].last.Instance)
	w.killNode(t, killed)
	visitAll(of(killed))
	visitAll(never)
}
