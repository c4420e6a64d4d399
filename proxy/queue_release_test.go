package proxy_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/queue"
)

// slowRamp releases two requests, and further ones when these are answered, for an hour.
func slowRamp(o *proxy.Options) {
	n := int64(0)
	o.QueueWait = time.Minute
	o.Queue = queue.New(queue.Options{Wait: time.Minute, Batch: 2, Pace: time.Hour, CPUUsage: func() (time.Duration, int64) {
		n += 1000
		return time.Duration(n), n
	}})
}

// queuedClients queues a number of requests with additional header fields and releases them slowly. It
// returns the ingress and the clients.
func queuedClients(t *testing.T, start starter, app string, all int, more string) (front *node, clients []*client) {
	t.Helper()
	front, owner := start(t, app, slowRamp)
	return front, front.queueTheseRequests(owner, slices.Repeat([]string{"GET / HTTP/1.1\r\n" + more}, all)...)
}

// queueRequests queues a number of requests for a shard without an owner, and then gives the shard
// to owner.
func (n *node) queueRequests(owner *node, all int) (clients []*client) {
	n.t.Helper()
	return n.queueTheseRequests(owner, slices.Repeat([]string{"GET / HTTP/1.1\r\n"}, all)...)
}

// queueTheseRequests is like queueRequests, for requests that begin with these texts, in this order.
func (n *node) queueTheseRequests(owner *node, requests ...string) (clients []*client) {
	n.t.Helper()
	n.swap(1, 2, held(route.ReasonMoving))
	for i, begins := range requests {
		c := n.dial()
		c.send("%sHost: h\r\nX-Shard-Key: k\r\n\r\n", begins)
		clients = append(clients, c)
		until(n.t, "waiting", func() bool { return n.room.Stats().Idle == i+1 })
	}
	owner.swap(2, 2, local(2))
	if owner != n {
		n.swap(2, 2, remote(owner.id, 2))
	}
	return clients
}

// Queued requests are released a few at a time, and the next one when one is answered. Released all at
// once, they would delay requests that never had to wait.
func TestQueuedRequestsContinueAfterResponses(t *testing.T) {
	const all = 7
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			arrived, answer := make(chan struct{}, all), make(chan struct{})
			front, clients := queuedClients(t, start, webApp(t, func(http.ResponseWriter, *http.Request) {
				arrived <- struct{}{}
				<-answer
			}), all, "")
			for went := 2; went <= all; went++ {
				until(t, "two at the app", func() bool { return len(arrived) == went })
				if st := front.room.Stats(); st.Due != all-went || st.Waiting != all-went {
					t.Errorf("with two at the app %d of %d that wait are due, want %d", st.Due, st.Waiting, all-went)
				}
				answer <- struct{}{}
			}
			answer <- struct{}{}
			for _, c := range clients {
				if res, _ := c.answer("GET"); res.StatusCode != 200 {
					t.Errorf("answer = %v", res.Status)
				}
			}
		})
	}
}

// A long response does not delay the next queued request.
func TestQueuedRequestsContinueAtResponseHeader(t *testing.T) {
	const all = 7
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			arrived, end := make(chan struct{}, all), make(chan struct{})
			_, clients := queuedClients(t, start, webApp(t, func(w http.ResponseWriter, _ *http.Request) {
				arrived <- struct{}{}
				_ = http.NewResponseController(w).Flush()
				<-end
			}), all, "")
			until(t, "at the app", func() bool { return len(arrived) == all })
			close(end)
			for _, c := range clients {
				if res, _ := c.answer("GET"); res.StatusCode != 200 {
					t.Errorf("answer = %v", res.Status)
				}
			}
		})
	}
}

// An upgraded connection may last any time, so it does not delay the next queued request.
func TestQueuedRequestsContinueAfterUpgrade(t *testing.T) {
	const all = 7
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			arrived, end := make(chan struct{}, all), make(chan struct{})
			_, clients := queuedClients(t, start, webApp(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n")
				arrived <- struct{}{}
				<-end
			}), all, "Connection: Upgrade\r\nUpgrade: thing\r\n")
			until(t, "at the app", func() bool { return len(arrived) == all })
			for _, c := range clients {
				if res, _ := c.answer("HEAD"); res.StatusCode != 101 {
					t.Errorf("answer = %v", res.Status)
				}
			}
			close(end)
		})
	}
}

// A panic in requests that have waited affects only these. Their places are released, and other
// requests continue.
func TestQueuedRequestsContinueAfterPanic(t *testing.T) {
	const all = 7
	b := &buggy{}
	n := newNode(t, "owner", webApp(t, echo), slowRamp, func(o *proxy.Options) {
		b.node, _ = o.Cluster.(*node)
		o.Cluster = b
	})
	n.swap(1, 2, held(route.ReasonMoving))
	for range all {
		n.dial().send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	}
	until(t, "waiting", func() bool { return n.room.Stats().Waiting == all })
	b.table.Store(true)
	n.swap(2, 2, local(2))
	until(t, "nobody waits", func() bool { return n.room.Stats().Waiting == 0 })
	b.table.Store(false)
	if res, _ := n.dial().get("/"); res.StatusCode != 200 {
		t.Errorf("after that: %v", res.Status)
	}
}
