package proxy_test

import (
	"testing"
)

// rekey activates another key configuration with a map in which n owns all shards, after all requests
// have ended.
func (w *socketTest) rekey(text string, n *node) {
	w.Helper()
	w.propose()
	w.until("no leg runs", func() bool { return w.a.running.Load() == 0 && w.b.running.Load() == 0 })
	keys, since := parsedKeys(w.T, text), w.epoch
	for _, m := range w.nodes {
		m.keys, m.keysSince = keys, since
	}
	w.own(n)
}

// A resumable WebSocket resumes if its key is the same under the new key configuration.
func TestResumableWebSocketResumesWithSameKey(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.rekey(`{"key":["query:absent","header:x-shard-key"],"on_missing_key":"reject"}`, t.b)
		c.sendText("two")
		t.until("got", t.app.has(2))
		if n := len(t.app.upgradeRequests()); n != 2 {
			t.Errorf("%d legs", n)
		}
		_ = c.Close()
	})
}

// A resumable WebSocket whose request has another key, or none, under the new configuration is closed,
// so that its client reconnects.
func TestWebSocketWithChangedKeyIsClosed(t *testing.T) {
	for name, text := range map[string]string{
		"none":    `{"key":["header:x-absent"],"on_missing_key":"reject"}`,
		"keyless": `{"key":["header:x-absent"],"on_missing_key":"local"}`,
		"another": `{"key":["host"],"on_missing_key":"reject"}`,
	} {
		t.Run(name, func(t *testing.T) {
			inSockets(t, plainChat, func(t *socketTest) {
				c := t.front.socket()
				c.sendText("one")
				t.until("got", t.app.has(1))
				t.rekey(text, t.b)
				c.wantClosedFor(1012, "")
				if n := len(t.app.upgradeRequests()); n != 1 {
					t.Errorf("%d legs", n)
				}
				_ = c.Close()
			})
		})
	}
}
