package proxy_test

import (
	"testing"

	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// quarantineOf returns a quarantine with these keys for a node with the given number of shards.
func quarantineOf(shards int, hashKey string, keys ...string) *shardkey.Quarantine {
	q := &shardkey.Quarantine{}
	for _, k := range keys {
		q.Add(shardmap.ShardOf(k, shards), shardkey.Hash([]byte(hashKey), []byte(k)), []byte(hashKey))
	}
	return q
}

// otherKeyOfShard returns another key of the same shard.
func otherKeyOfShard(key string, shards int) string {
	for other := key + "x"; ; other += "x" {
		if shardmap.ShardOf(other, shards) == shardmap.ShardOf(key, shards) {
			return other
		}
	}
}

// Requests of a quarantined key do not reach an owner. Requests of other keys of the shard are served.
func TestQuarantinedKeysAreRejected(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo))
			shards := front.Table().Shards()
			c := front.dial()
			ask := func(key string) (*reply, string) {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nContent-Length: 2\r\n\r\nhi", key)
				return c.answer("POST")
			}
			front.Quarantine(quarantineOf(shards, "s", "k", "another"))
			res, body := ask("k")
			wantStatus(t, res, body, 503, "quarantined")
			if got := res.Header.Get("Retry-After"); got != "60" {
				t.Errorf("Retry-After = %q, want 60", got)
			}
			if n := owner.admitted.Load(); n != 0 {
				t.Errorf("%d requests were admitted", n)
			}
			if res, body := ask(otherKeyOfShard("k", shards)); res.StatusCode != 200 {
				t.Errorf("another key of the shard: %s %s", res.Status, body)
			}
			other := &shardkey.Quarantine{}
			other.Add(shardmap.ShardOf("k", shards), shardkey.Hash([]byte("s"), []byte("k")), []byte("another secret"))
			for _, q := range []*shardkey.Quarantine{nil, {}, other} {
				front.Quarantine(q)
				if res, body := ask("k"); res.StatusCode != 200 {
					t.Errorf("not in quarantine: %s %s", res.Status, body)
				}
			}
		})
	}
}

// Requests of a key that crashed its owner wait while the shard has no owner. A quarantine of the key
// rejects these requests.
func TestRequestThatWaitsIsQuarantined(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	n.swap(1, 1, held(route.ReasonOrphaned))
	c := n.dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	until(t, "waiting", func() bool { return n.room.Stats().Waiting == 1 })
	n.Quarantine(quarantineOf(n.Table().Shards(), "", "k"))
	n.swap(2, 2, local(2))
	res, body := c.answer("POST")
	wantStatus(t, res, body, 503, "quarantined")
	if got := n.admitted.Load(); got != 0 {
		t.Errorf("%d requests were admitted", got)
	}
}

// A request without a key has no key hash, so no quarantine applies to it.
func TestRequestsWithoutAKeyAreNotQuarantined(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo))
			q := &shardkey.Quarantine{}
			for s := range front.Table().Shards() {
				q.Add(shard(s), shardkey.Hash(nil, nil), nil)
			}
			front.Quarantine(q)
			c := front.dial()
			c.send("OPTIONS / HTTP/1.1\r\nHost: h\r\nAccess-Control-Request-Method: PUT\r\n\r\n")
			if res, body := c.answer("OPTIONS"); res.StatusCode != 200 {
				t.Errorf("answer = %s %s", res.Status, body)
			}
		})
	}
}
