//go:build linux

package recipes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// TestPocketBaseRunsOncePerTenant runs one PocketBase for each tenant. Clients write records of all tenants through all
// nodes, and subscribe to them. No record that PocketBase has acknowledged is lost or written twice in a drain, a rolling
// restart, or after kill -9 of a process or a node.
func TestPocketBaseRunsOncePerTenant(t *testing.T) {
	t.Parallel() // it waits most of the time
	migrations, err := filepath.Abs("testdata/pocketbase/pb_migrations")
	must(t, err)
	w := startProcesses(t, findPinned(t, "pocketbase")+" serve --http {addr} --dir {dir}/pb_data --automigrate=false --migrationsDir "+migrations,
		"--key=host:1", "--exec-ready=/api/health")
	ctx, stop := context.WithCancel(t.Context())
	c := &pocketBaseClients{client: http.Client{Timeout: 30 * time.Second}, addrs: cluster.Addrs(w.Nodes())}
	for i := range 6 {
		c.tenants = append(c.tenants, &tenant{name: fmt.Sprint("tenant", i)})
	}
	c.run(ctx)
	t.Cleanup(func() { stop(); c.running.Wait() })
	c.awaitProgress(t, "at the start")
	key := c.tenants[0].name

	owner, _ := w.processOf(t, key)
	w.drain(t, owner)
	if left := w.processes(t, owner); len(left) > 0 {
		t.Errorf("after the drain, node %s runs %+v", owner.ID, left)
	}
	c.awaitProgress(t, "after a drain")
	w.uncordon(t, owner)
	c.awaitProgress(t, "after the return of the node")
	if refused := c.refusals(); len(refused) > 0 {
		t.Errorf("requests failed in planned moves: %q", refused)
	}

	w.killProcess(t, key)
	c.awaitProgress(t, "after kill -9 of a process")

	for _, node := range w.Nodes() {
		c.useNodes(w.Others(node))
		node.Terminate(t)
		node.AwaitExit(t, 0)
		node.Start(t)
		w.AwaitServing(t)
	}
	c.useNodes(w.Nodes())
	c.awaitProgress(t, "after a rolling restart")

	owner, _ = w.processOf(t, key)
	c.useNodes(w.Others(owner))
	w.killNode(t, owner)
	c.awaitProgress(t, "after kill -9 of a node")

	stop()
	c.running.Wait()
	total := 0
	for _, x := range c.tenants {
		total += c.check(t, x)
		if x.connections < 2 {
			t.Errorf("%s: the subscription has never reconnected", x.name)
		}
	}
	t.Logf("%d acknowledged records of %d tenants", total, len(c.tenants))
	w.checkOneProcess(t)
}

// tenant is one tenant with its clients. pocketBaseClients.mu protects the fields after name.
type tenant struct {
	name         string
	acknowledged []string // records
	events       int      // that the subscription has received
	connections  int      // that the subscription has opened
}

// pocketBaseClients are clients of all tenants. For each tenant, one writes records and another one subscribes to them.
type pocketBaseClients struct {
	client  http.Client
	tenants []*tenant
	running sync.WaitGroup

	mu sync.Mutex
	// mu protects the following fields.
	addrs  []string // of the nodes that the clients use
	failed []string // responses to records other than 200
}

// run starts the clients. They end with ctx.
func (c *pocketBaseClients) run(ctx context.Context) {
	for _, x := range c.tenants {
		c.running.Go(func() {
			pace := time.NewTicker(25 * time.Millisecond)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				c.write(ctx, x, fmt.Sprint(x.name, "-", n))
				<-pace.C
			}
		})
		c.running.Go(func() {
			pace := time.NewTicker(50 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				_ = c.subscribe(ctx, x) // the client reconnects
				<-pace.C
			}
		})
	}
}

// write creates a record.
func (c *pocketBaseClients) write(ctx context.Context, x *tenant, text string) {
	res, err := c.send(context.WithoutCancel(ctx), http.MethodPost, x, "collections/notes/records", fmt.Sprintf(`{"text":%q}`, text))
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.failed = append(c.failed, err.Error())
	case res.StatusCode != http.StatusOK:
		c.failed = append(c.failed, fmt.Sprint(res.StatusCode, " ", res.Header.Get("Shardway-Error")))
	default:
		x.acknowledged = append(x.acknowledged, text)
	}
}

// subscribe receives events of records until the connection ends, as the SDK of PocketBase does: the first event names the
// connection, and a request subscribes it to topics.
func (c *pocketBaseClients) subscribe(ctx context.Context, x *tenant) error {
	stream := http.Client{} // without a time limit
	req, err := c.request(ctx, http.MethodGet, x, "realtime", "")
	if err != nil {
		return err
	}
	res, err := stream.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	event := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch {
		case name == "event":
			event = value
		case name == "data" && event == "PB_CONNECT":
			var connect struct{ ClientID string }
			if err := json.Unmarshal([]byte(value), &connect); err != nil {
				return err
			}
			subscribed, err := c.send(ctx, http.MethodPost, x, "realtime", fmt.Sprintf(`{"clientId":%q,"subscriptions":["notes/*"]}`, connect.ClientID))
			if err != nil {
				return err
			}
			_ = subscribed.Body.Close()
			if subscribed.StatusCode != http.StatusNoContent {
				return errors.New(subscribed.Status)
			}
			c.mu.Lock()
			x.connections++
			c.mu.Unlock()
		case name == "data":
			c.mu.Lock()
			x.events++
			c.mu.Unlock()
		}
	}
	return nil
}

// request returns a request of a tenant to one of the nodes.
func (c *pocketBaseClients) request(ctx context.Context, method string, x *tenant, path, body string) (*http.Request, error) {
	c.mu.Lock()
	addr := c.addrs[rand.IntN(len(c.addrs))]
	c.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/api/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Host = x.name + ".example.com"
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// send sends a request of a tenant to one of the nodes.
func (c *pocketBaseClients) send(ctx context.Context, method string, x *tenant, path, body string) (*http.Response, error) {
	req, err := c.request(ctx, method, x, path, body)
	if err != nil {
		return nil, err
	}
	return c.client.Do(req)
}

// useNodes makes later requests use these nodes.
func (c *pocketBaseClients) useNodes(nodes []*cluster.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs = cluster.Addrs(nodes)
}

// refusals returns the responses to records other than 200.
func (c *pocketBaseClients) refusals() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// awaitProgress waits until each tenant has further records and further events of them.
func (c *pocketBaseClients) awaitProgress(t *testing.T, step string) {
	t.Helper()
	const count = 5
	type progress struct{ records, events int }
	now := func(x *tenant) progress {
		c.mu.Lock()
		defer c.mu.Unlock()
		return progress{len(x.acknowledged), x.events}
	}
	before := map[*tenant]progress{}
	for _, x := range c.tenants {
		before[x] = now(x)
	}
	began := time.Now()
	defer func() { t.Logf("%s: all tenants are served after %v", step, time.Since(began).Round(time.Millisecond)) }()
	cluster.Await(t, "all tenants are served "+step, func() error {
		for _, x := range c.tenants {
			if has := now(x); has.records < before[x].records+count || has.events < before[x].events+count {
				return fmt.Errorf("%s: %+v after %+v", x.name, has, before[x])
			}
		}
		return nil
	})
}

// check verifies that the acknowledged records of a tenant exist once. It returns their number.
func (c *pocketBaseClients) check(t *testing.T, x *tenant) int {
	t.Helper()
	count := map[string]int{}
	for page, pages := 1, 1; page <= pages; page++ {
		res, err := c.send(t.Context(), http.MethodGet, x, fmt.Sprint("collections/notes/records?perPage=1000&sort=id&page=", page), "")
		must(t, err)
		var list struct {
			TotalPages int
			Items      []struct{ Text string }
		}
		err = json.NewDecoder(res.Body).Decode(&list)
		_ = res.Body.Close()
		must(t, err)
		pages = list.TotalPages
		for _, item := range list.Items {
			count[item.Text]++
		}
	}
	for text, n := range count {
		if n > 1 {
			t.Errorf("%s: record %s was written %d times", x.name, text, n)
		}
		if !strings.HasPrefix(text, x.name+"-") {
			t.Errorf("%s has record %s of another tenant", x.name, text)
		}
	}
	for _, text := range x.acknowledged {
		if count[text] == 0 {
			t.Errorf("%s: acknowledged record %s is lost", x.name, text)
		}
	}
	return len(x.acknowledged)
}
