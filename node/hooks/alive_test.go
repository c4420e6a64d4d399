package hooks_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/node/hooks"
)

// The calls of the alive hook share a connection, and contain what the app needs to measure its own write time.
func TestAliveSendsRemainingWriteTime(t *testing.T) {
	dials, status := 0, http.StatusOK
	var got []map[string]any
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method != http.MethodPost || r.URL.Path != "/_shards/alive" || r.Header.Get(hooks.Header) != "alive" {
			t.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
		}
		got = append(got, body)
		w.WriteHeader(status)
	}))
	defer app.Close()
	h := &hooks.HTTP{Host: "app", Path: "/_shards", Disk: "d1", Dial: func(ctx context.Context) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, "tcp", app.Listener.Addr().String())
	}}
	defer h.CloseAlive()
	for _, c := range []agent.AliveCall{{ID: "1", MapEpoch: 9, ShardCount: 3}, {ID: "2", PreviousID: "1", MapEpoch: 9, ShardCount: 3, WriteFor: 412345 * time.Microsecond}} {
		if follows, refused, err := h.Alive(t.Context(), c); !follows || refused || err != nil {
			t.Errorf("call %s: %v, %v, %v", c.ID, follows, refused, err)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections for two calls, want one", dials)
	}
	for i, want := range []string{
		`{"id":"1","after":"","disk":"d1","map":9,"held":3,"may_write_ms":0}`,
		`{"id":"2","after":"1","disk":"d1","map":9,"held":3,"may_write_ms":412}`,
	} {
		var w map[string]any
		_ = json.Unmarshal([]byte(want), &w)
		for k, v := range w {
			if got[i][k] != v {
				t.Errorf("call %d has %s = %v, want %v", i, k, got[i][k], v)
			}
		}
	}
	status = http.StatusNotFound
	if follows, refused, err := h.Alive(t.Context(), agent.AliveCall{ID: "3"}); follows || refused || err != nil {
		t.Errorf("of an app without it: %v, %v, %v", follows, refused, err)
	}
	for _, status = range []int{500, 503, 429} { // the app may still write
		if follows, refused, err := h.Alive(t.Context(), agent.AliveCall{ID: "4"}); follows || refused || err == nil {
			t.Errorf("of an app that answers %d: %v, %v, %v, want an error", status, follows, refused, err)
		}
	}
	h.CloseAlive()
	app.Close()
	if follows, refused, err := h.Alive(t.Context(), agent.AliveCall{ID: "4"}); follows || !refused || err == nil {
		t.Errorf("of no app: %v, %v, %v", follows, refused, err)
	}
}
