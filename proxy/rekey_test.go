package proxy_test

import (
	"net/http"
	"testing"

	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// rekey gives the node a table with another key configuration that became active with the committed
// map of epoch since.
func (n *node) rekey(keys *shardkey.Keys, committed, since uint64) {
	before := n.table.Load()
	generation := before.Generation() + 1
	n.table.Store(route.NewTable(route.TableSpec{
		Generation: generation, Committed: committed, Proposed: committed, Shards: shards, Previous: before,
		Keys: keys, KeysSince: since, Route: func(s shardmap.Shard) route.Route { return *before.Route(s) },
	}))
	n.swapped.Lock()
	close(n.swapped.ch)
	n.swapped.ch = make(chan struct{})
	n.swapped.Unlock()
	n.Wake(generation)
}

func parsedKeys(t *testing.T, text string) *shardkey.Keys {
	t.Helper()
	keys, err := shardkey.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// An owner refuses a forwarded request if the ingress extracted the key with an older key
// configuration. It serves the next one, which is sent with the map that activated the new
// configuration.
func TestOwnerRefusesOutdatedKeyConfig(t *testing.T) {
	n := newNode(t, "owner", webApp(t, echo))
	n.rekey(parsedKeys(t, `{"key":["header:x-shard-key"],"on_missing_key":"reject"}`), 2, 2)
	c := n.stream()
	c.send(forwardedPost + "Content-Length: 2\r\n\r\nhi")
	res, body := c.answer("POST")
	if res.StatusCode == http.StatusOK || n.admitted.Load() != 0 {
		t.Errorf("%v %s, and %d were admitted", res.Status, body, n.admitted.Load())
	}
	if refused := metric(t, n, "shardway_refused_total", "held"); refused != 1 {
		t.Errorf("refused %v requests, want 1", refused)
	}
	c = n.stream()
	c.send("POST /x HTTP/1.1\r\nHost: h\r\nShardway-Map: 2 2\r\nShardway-Shard: 3\r\nContent-Length: 2\r\n\r\nhi")
	if res, body := c.answer("POST"); res.StatusCode != http.StatusOK || body != "POST /x hi" {
		t.Errorf("sent by the map of the new keys: %v %s", res.Status, body)
	}
}

// An ingress with an old log extracts the key of a refused request again, with the key configuration
// that has become active.
func TestIngressExtractsKeyAgainAfterChange(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo))
	keys := parsedKeys(t, `{"key":["header:x-tenant"],"on_missing_key":"reject"}`)
	owner.rekey(keys, 2, 2)
	c := ingress.dial()
	c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nX-Tenant: t\r\nContent-Length: 5\r\n\r\nhello")
	until(t, "refused", func() bool { return metric(t, ingress, "shardway_refused_by_owner_total", "held") > 0 })
	ingress.rekey(keys, 2, 2)
	res, body := c.answer("POST")
	if res.StatusCode != http.StatusOK || body != "POST /x hello" || res.Header.Get("Saw-Shardway-Key") != "t" {
		t.Errorf("%v %s with key %q, want key t", res.Status, body, res.Header.Get("Saw-Shardway-Key"))
	}
	if n := owner.admitted.Load(); n != 1 {
		t.Errorf("%d requests ran, want 1", n)
	}
}
