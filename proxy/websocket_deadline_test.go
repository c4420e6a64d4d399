package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy/route"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// slowChat is an app that resumes up to most WebSockets, one after the other, each after a delay. It
// never responds to the others.
func slowChat(each time.Duration, most int) *chat {
	turn := make(chan int, 1)
	turn <- 0
	return &chat{answer: func(_ int, head http.Header) string {
		if head.Get("Shardway-WebSocket-Resumed") == "" {
			return ""
		}
		n := <-turn
		if n == most {
			turn <- n
			return "silence"
		}
		time.Sleep(each)
		turn <- n + 1
		return ""
	}}
}

// Moving WebSockets wait as long as their queue makes progress, not only for ResumeTimeout.
func TestWebSocketsWaitWhileQueueProgresses(t *testing.T) {
	many := 120
	inSockets(t, func() *chat { return slowChat(time.Second/2, many) }, func(t *socketTest) {
		all := make([]*client, many)
		for i := range all {
			all[i] = t.front.socket()
		}
		t.move(t.a, t.b)
		time.Sleep(time.Duration(many) * time.Second / 2) // three times ResumeTimeout
		for _, c := range all {
			c.sendText("on")
		}
		t.until("all go on", t.app.has(many))
		for _, c := range all {
			_ = c.Close()
		}
	})
}

// WebSockets wait for ResumeTimeout after the queue has stopped, and for up to six times ResumeTimeout
// in total.
func TestWebSocketWaitIsLimited(t *testing.T) {
	for name, tc := range map[string]struct {
		each  time.Duration
		most  int
		after time.Duration
	}{
		"it stands still": {time.Second, 30, 50 * time.Second},
		"it never ends":   {5 * time.Second, 1000, 120 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			const many = 60
			inSockets(t, func() *chat { return slowChat(tc.each, tc.most) }, func(t *socketTest) {
				all := make([]*client, many)
				for i := range all {
					all[i] = t.front.socket()
				}
				t.move(t.a, t.b)
				began := time.Now()
				closed := make(chan time.Duration, many)
				for _, c := range all {
					go func() {
						if op, p, err := readMessage(c.r); err != nil {
							return // closed below
						} else if want := "\x03\xf4no app took the socket in time"; op != wsframe.OpClose || string(p) != want {
							t.Errorf("%x %q, want %q", op, p, want)
						}
						closed <- time.Since(began)
					}()
				}
				time.Sleep(many*tc.each + tc.after) // until the app has finished all of them
				for _, c := range all {
					_ = c.Close()
				}
				synctest.Wait()
				late := len(closed)
				for range late {
					if took := <-closed; took < tc.after-3*time.Second || took > tc.after+3*time.Second {
						t.Errorf("closed after %v, want %v", took, tc.after)
					}
				}
				if on := min(int(tc.after/tc.each), tc.most); late < many-on-1 || late > many-on+1 {
					t.Errorf("%d of %d sockets are closed after %v, want %d", late, many, tc.after, many-on)
				}
			})
		})
	}
}

// A queue at one node does not extend the wait for a shard of another node.
func TestWebSocketWaitDependsOnItsOwnQueue(t *testing.T) {
	const many = 40
	inSockets(t, func() *chat { return slowChat(time.Second, many) }, func(t *socketTest) {
		mine := shardmap.ShardOfBytes([]byte("other"), shards)
		all := make([]*client, many)
		for i := range all {
			all[i] = t.front.socket()
		}
		lone := t.front.dial()
		lone.send("%s", strings.Replace(socketRequest, "X-Shard-Key: k\r\n", "X-Shard-Key: other\r\n", 1))
		if _, err := readHead(lone.r); err != nil {
			t.Fatal(err)
		}
		t.propose()
		t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
		began := time.Now()
		t.b.swap(t.epoch, t.epoch, local(t.epoch))
		t.front.swap(t.epoch, t.epoch, func(s shardmap.Shard) route.Route {
			if s == mine {
				return remote("nobody", t.epoch)(s)
			}
			return remote(t.b.id, t.epoch)(s)
		})
		lone.wantClosedFor(1012, "no app took the socket in time")
		if took := time.Since(began); took < 18*time.Second || took > 22*time.Second {
			t.Errorf("took %v", took)
		}
		_ = lone.Close()
		time.Sleep(many * time.Second)
		for _, c := range all {
			c.sendText("on")
		}
		t.until("all go on", t.app.has(many))
		for _, c := range all {
			_ = c.Close()
		}
	})
}
