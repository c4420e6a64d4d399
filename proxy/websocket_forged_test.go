package proxy_test

import (
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Only nodes can send the headers of resumable WebSockets and event streams to an app or an owner. A
// client's headers with these names are dropped in any spelling that an app may accept.
func TestClientsCannotSendSessionHeaders(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	forged := "Shardway-WebSocket: " + id + "\r\nshardway-websocket-resumed: 7\r\nSHARDWAY-WEBSOCKET-GAP: 1\r\nShardway_WebSocket: " + id +
		"\r\nShardway_WebSocket_Resumed: 7\r\nShardway.WebSocket.Gap: 1\r\nShardway-WebSocket-Close: 4000\r\nShardway-Stream: resume\r\nShardway-Stream-Resumed: 9\r\nShardway_Stream_Resumed: 9\r\n"
	told := func(t *socketTest, h http.Header) []string {
		names := slices.Collect(maps.Keys(h))
		names = slices.DeleteFunc(names, func(name string) bool {
			name = strings.ToLower(name)
			return !strings.HasPrefix(name, "shardway") || slices.Contains([]string{"shardway-shard", "shardway-key", "shardway-epoch", "shardway-node"}, name)
		})
		for _, name := range names {
			if len(h.Values(name)) != 1 {
				t.Errorf("%s: %q", name, h.Values(name))
			}
		}
		return names
	}
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.dial()
		c.send("%s", strings.Replace(socketRequest, "Shardway-WebSocket: mine\r\nShardway-WebSocket-Gap: 1\r\n", forged, 1))
		if head, err := readHead(c.r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101") {
			t.Fatalf("%q, %v", head, err)
		}
		t.move(t.a, t.b)
		t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
		first, second := t.app.upgradeRequests()[0], t.app.upgradeRequests()[1]
		if got := told(t, first); !slices.Equal(got, []string{"Shardway-Websocket"}) {
			t.Errorf("the first leg is told %q: %v", got, first)
		}
		given := first.Get("Shardway-WebSocket")
		if raw, err := hex.DecodeString(given); err != nil || len(raw) != 16 || given == id {
			t.Errorf("the socket's id is %q", given)
		}
		if got := told(t, second); len(got) != 2 || second.Get("Shardway-WebSocket") != given || second.Get("Shardway-WebSocket-Resumed") != "1" {
			t.Errorf("the second leg is told %v", second)
		}
		_ = c.Close()
	})
	inSockets(t, func() *chat {
		return &chat{answer: func(int, http.Header) string { return "HTTP/1.1 204 No Content\r\n\r\n" }}
	}, func(t *socketTest) {
		c := t.front.dial()
		c.send("GET /feed HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n", forged)
		if head, err := readHead(c.r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 204") {
			t.Fatalf("%q, %v", head, err)
		}
		if got := told(t, t.app.upgradeRequests()[0]); len(got) != 0 {
			t.Errorf("a request that is for no socket is told %q", got)
		}
		_ = c.Close()
	})
}
