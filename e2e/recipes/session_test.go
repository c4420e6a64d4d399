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

// visit is the result of one use of a session.
type visit struct {
	// Count is the number of uses of the session so far, according to the app.
	Count int `json:"count"`
	// Instance is the ID of the node whose instance keeps the session.
	Instance string `json:"instance"`
	// Cookie is the Cookie header that the app has received.
	Cookie string `json:"cookie"`
}

// sessionClient is a client with one session. It sends its requests to all nodes in turn.
type sessionClient struct {
	// send uses the session once, through the node with the address addr. If the app does not have the session
	// any more, send begins a new one, as the client of the app does.
	send func(ctx context.Context, addr string) (visit, error)
	last visit
	used int // number of requests so far
}

// browsers returns n clients that keep cookies. A jar returns cookies to all nodes, because they have one host
// name.
func browsers(t *testing.T, n int, path string) []*sessionClient {
	t.Helper()
	list := make([]*sessionClient, n)
	for i := range list {
		jar, err := cookiejar.New(nil)
		must(t, err)
		client := &http.Client{Jar: jar, Timeout: 30 * time.Second}
		list[i] = &sessionClient{used: i, send: func(ctx context.Context, addr string) (visit, error) { return browse(ctx, client, "http://"+addr+path) }}
	}
	return list
}

// sendVisit sends a request, and returns the response of the app.
func sendVisit(client *http.Client, req *http.Request) (visit, error) {
	res, err := client.Do(req)
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
	return seen, nil
}

// browse sends one request, and returns the response of the app.
func browse(ctx context.Context, client *http.Client, url string) (visit, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return visit{}, err
	}
	seen, err := sendVisit(client, req)
	if err != nil {
		return visit{}, err
	}
	if strings.Contains(seen.Cookie, ".sw-") {
		return visit{}, fmt.Errorf("the app has received the suffix: %s", seen.Cookie)
	}
	return seen, nil
}

// keepSession uses the session three times. It must continue at one instance. mayBegin permits that the first
// use begins a new session, because the owner of the key has changed.
func (c *sessionClient) keepSession(t *testing.T, addrs []string, mayBegin bool) {
	t.Helper()
	c.use(t, addrs, 3, mayBegin)
}

// use is keepSession for n uses.
func (c *sessionClient) use(t *testing.T, addrs []string, n int, mayBegin bool) {
	t.Helper()
	for i := range n {
		c.used++
		seen, err := c.send(t.Context(), addrs[c.used%len(addrs)])
		if err != nil {
			t.Error(err)
			return
		}
		begins := mayBegin && i == 0 && seen.Count == 1
		continues := seen.Count == c.last.Count+1 && seen.Instance == c.last.Instance
		if !begins && !continues {
			t.Errorf("the session continues with %+v after %+v", seen, c.last)
		}
		c.last = seen
	}
}

// sessionCount is the number of clients in a recipe.
const sessionCount = 12

// checkCookieSessions is checkSessions for an app that keeps its session id in a cookie.
func checkCookieSessions(t *testing.T, w *world, path string) {
	t.Helper()
	checkSessions(t, w, browsers(t, sessionCount, path))
}

// checkSessions runs the recipe of an app that keeps sessions in its own memory or files: a rolling restart of the
// nodes keeps every session. The crash of an instance or of a node, and a drain, end only the sessions there.
func checkSessions(t *testing.T, w *world, clients []*sessionClient) {
	t.Helper()
	useAll := func(mayBegin func(c *sessionClient) bool) {
		t.Helper()
		for _, c := range clients {
			c.keepSession(t, cluster.Addrs(w.Running()), mayBegin(c))
		}
	}
	always, never := func(*sessionClient) bool { return true }, func(*sessionClient) bool { return false }
	of := func(owner *cluster.Node) func(*sessionClient) bool {
		return func(c *sessionClient) bool { return c.last.Instance == owner.ID }
	}
	useAll(always) // each client begins a session
	instances := map[string]int{}
	for _, c := range clients {
		instances[c.last.Instance]++
	}
	if len(instances) < 2 {
		t.Fatalf("the sessions of %d clients are at %v", len(clients), instances)
	}
	w.restartNodes(t, func(addrs []string) {
		for _, c := range clients {
			c.keepSession(t, addrs, false)
		}
	})
	useAll(never)
	crashed := w.instances[clients[0].last.Instance]
	crashed.kill()
	crashed.start(t)
	crashed.awaitPort(t)
	for _, c := range clients {
		if c.last.Instance != crashed.name {
			c.keepSession(t, cluster.Addrs(w.Running()), false)
			continue
		}
		for range 3 { // the shards of the instance may move away and return
			c.use(t, cluster.Addrs(w.Running()), 1, true)
		}
	}
	w.AwaitServing(t)
	useAll(always)
	drained := w.Node(clients[0].last.Instance)
	w.drain(t, drained)
	useAll(of(drained))
	w.uncordon(t, drained)
	useAll(always) // some shards return
	killed := w.Node(clients[0].last.Instance)
	w.killNode(t, killed)
	useAll(of(killed))
	useAll(never)
}
