package proxy_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/proxy/accesslog"
	"shardway/proxy/wsession"
)

// accessLogLine contains the fields of an access log line that tests check.
type accessLogLine struct {
	WebSocket, Reason, Owner, Route string
	Conn                            int `json:"upstream_conn"`
	Status                          int
	Key                             string  `json:"key_hash"`
	Held                            float64 `json:"queued_ms"`
	Upstream                        float64 `json:"upstream_ms"`
	Took                            float64 `json:"took_ms"`
	In                              int64   `json:"bytes_in"`
	Out                             int64   `json:"bytes_out"`
}

// accessLines parses an access log.
func accessLines(t *testing.T, text string) (all []accessLogLine) {
	t.Helper()
	for l := range strings.Lines(text) {
		var x accessLogLine
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			t.Fatalf("%v: %s", err, l)
		}
		all = append(all, x)
	}
	return all
}

// text returns the contents of the log. If empty is true, it also clears the log.
func (l *lines) text(empty bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.buf.String()
	if empty {
		l.buf.Reset()
	}
	return text
}

// Each upstream connection has one access log line at its beginning and one at its end, with the bytes
// transferred. The line at the beginning contains how long the client waited. The request has no further
// line.
func TestAccessLogContainsRelays(t *testing.T) {
	log := &lines{}
	inSockets(t, plainChat, func(t *socketTest) {
		log.text(true)
		c := t.front.socket()
		time.Sleep(2 * time.Second)
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.propose()
		t.until("it is without a leg", func() bool { return metric(t.T, t.front, "shardway_resumable_websockets", "detached") == 1 })
		time.Sleep(3 * time.Second)
		t.own(t.b)
		t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
		_, _ = t.app.conn(1).Write(message(0x81, false, "hello"))
		if got := c.receiveText(); got != "hello" {
			t.Errorf("heard %q", got)
		}
		t.orphan()
		t.b.CancelUpstream("lapsed")
		c.wantClosed(1012)
		_ = c.Close()
		t.until("the last line", func() bool { return log.has(`"lost"`) })
		got := accessLines(t.T, log.text(false))
		if len(got) != 5 {
			t.Fatalf("%d lines:\n%s", len(got), log.text(false))
		}
		way := "remote"
		if t.local {
			way = "local"
		}
		for i, want := range []accessLogLine{
			{WebSocket: "begin", Reason: "first", Conn: 1, Owner: t.a.id, Route: way},
			{WebSocket: "end", Reason: "handed-over", Conn: 1, Owner: t.a.id, Route: way, In: 9},
			{WebSocket: "begin", Reason: "planned", Conn: 2, Owner: t.b.id, Route: "remote"},
			{WebSocket: "end", Reason: "gap", Conn: 2, Owner: t.b.id, Route: "remote", Out: 7},
			{WebSocket: "lost", Reason: "late", Conn: 2, Owner: t.b.id},
		} {
			x := got[i]
			if x.WebSocket != want.WebSocket || x.Reason != want.Reason || x.Conn != want.Conn || x.Owner != want.Owner || x.Status != 101 || x.Key == "" || want.Route != "" && x.Route != want.Route {
				t.Errorf("line %d is %+v, want %+v", i, x, want)
			}
			if i > 0 && (x.In != want.In || x.Out != want.Out) {
				t.Errorf("line %d has %d bytes in and %d out, want %d and %d", i, x.In, x.Out, want.In, want.Out)
			}
		}
		if first := got[0]; first.In < 100 || first.Out < 50 || first.Took > 1000 {
			t.Errorf("the first line has %+v", first)
		}
		for i, atLeast := range map[int]float64{1: 2000, 2: 3000, 4: 19000} {
			if x := got[i]; x.Took < atLeast || x.Took > atLeast+2000 || i == 2 && x.Held < atLeast || i == 1 && x.Upstream < atLeast {
				t.Errorf("line %d took %+v, want %v ms", i, x, atLeast)
			}
		}
	}, func(o *proxy.Options) {
		if o.Node == "front" {
			o.Access = &accesslog.Config{Log: zerolog.New(log)}
		}
	})
}

// WebSockets that lose their upstream connections together are logged once, after all have been
// resumed.
func TestJointHandoversAreReportedOnce(t *testing.T) {
	var mu sync.Mutex
	var told []wsession.Handover
	inSockets(t, plainChat, func(t *socketTest) {
		const many = 20
		var all []*client
		for range many {
			all = append(all, t.front.socket())
		}
		t.move(t.a, t.b)
		t.until("all are there", func() bool { return metric(t.T, t.front, "shardway_websocket_resumptions_total", "resumed") == many })
		time.Sleep(3 * time.Second)
		t.orphan()
		t.b.CancelUpstream("lapsed")
		for _, c := range all {
			c.wantClosed(1012)
		}
		other := t.front.socketLater()
		t.own(t.b)
		time.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 2 {
			t.Fatalf("told of %+v", told)
		}
		if first := told[0]; first.Sockets != many || first.Shards != 1 || first.ResumedWithGap != 0 || first.Lost != 0 || first.LongestOutage <= 0 {
			t.Errorf("a planned move is told as %+v", first)
		}
		if second := told[1]; second.Sockets != many || second.Lost != many || second.LongestOutage < 19*time.Second {
			t.Errorf("the end of an owner is told as %+v", second)
		}
		told = nil
		for _, c := range append(all, other) {
			_ = c.Close()
		}
	}, func(o *proxy.Options) {
		if o.Node == "front" {
			o.OnHandover = func(h wsession.Handover) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, h)
			}
		}
	})
}

// socketLater requests a WebSocket over a new connection and does not wait for the response.
func (n *node) socketLater() *client {
	c := n.dial()
	c.send("%s", socketRequest)
	return c
}
