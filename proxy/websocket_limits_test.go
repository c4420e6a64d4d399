package proxy_test

import (
	"testing"
	"time"

	"shardway/proxy"
)

// Up to three upstream connections may break within any minute. Older breaks do not count.
func TestOldBreaksDoNotCount(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		for i := range 9 {
			t.until("a leg", func() bool { return len(t.app.upgradeRequests()) == i+1 && t.a.running.Load() == 1 })
			time.Sleep(time.Second)
			if i%3 == 0 {
				time.Sleep(time.Minute)
			}
			t.a.CancelUpstream("lapsed")
		}
		t.until("a leg", func() bool { return len(t.app.upgradeRequests()) == 10 })
		c.sendText("on")
		t.until("it goes on", t.app.has(1))
		_ = c.Close()
	})
}

// WebSockets that wait for an upstream connection may all belong to one shard.
func TestWebSocketsOfOneShardFillTheirQueue(t *testing.T) {
	const many = 8
	inSockets(t, plainChat, func(t *socketTest) {
		all := make([]*client, many)
		for i := range all {
			all[i] = t.front.socket()
		}
		t.propose()
		time.Sleep(5 * time.Second)
		if n := metric(t.T, t.front, "shardway_resumable_websockets", "detached"); n != many {
			t.Fatalf("%v of %d sockets wait", n, many)
		}
		t.own(t.b)
		for _, c := range all {
			c.sendText("on")
		}
		t.until("all go on", t.app.has(many))
		for _, c := range all {
			_ = c.Close()
		}
	}, func(o *proxy.Options) { o.MaxConns = many })
}

// The app identifies WebSockets by their ids, so no two WebSockets have the same id.
func TestWebSocketsHaveUniqueIDs(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		first, second := t.front.socket(), t.front.socket()
		first.sendText("one")
		second.sendText("two")
		t.until("got", t.app.has(2))
		if legs := t.app.upgradeRequests(); len(legs) != 2 || legs[0].Get("Shardway-WebSocket") == legs[1].Get("Shardway-WebSocket") {
			t.Errorf("legs %v", legs)
		}
		_, _ = first.Close(), second.Close()
	})
}
