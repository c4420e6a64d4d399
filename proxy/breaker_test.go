package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// A long poll does not delay other requests after the app has recovered. Once, only the headers of a
// response showed that the app accepted connections again, so each long poll kept all other requests
// waiting for one more turn.
func TestLongPollDoesNotKeepBreakerOpen(t *testing.T) {
	const polls = 20
	for way, front := range map[string]func(ingress, owner *node) *node{
		"local":  func(_, owner *node) *node { return owner },
		"remote": func(ingress, _ *node) *node { return ingress },
	} {
		for what, poll := range map[string]string{
			"GET":              "GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n",
			"POST":             "POST /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi",
			"POST, of unknown": "POST /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		} {
			t.Run(way+" "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ingress, owner, _, app := dialedPair(t, func(o *proxy.Options) { o.QueueWait = time.Minute })
					n := front(ingress, owner)
					app.down.Store(true)
					first := n.sendManyRequests(polls, poll)
					time.Sleep(time.Second) // until each has been refused
					crowd := n.sendMany(100)
					time.Sleep(time.Second)
					app.down.Store(false)
					back := time.Now()
					served(t, crowd)
					if took := time.Since(back); took > time.Second {
						t.Errorf("the last one was served %v after the app was back", took)
					}
					served(t, first)
				})
			})
		}
	}
}

// The breaker closes although connections return to the pool. Once, a refused connection opened the
// breaker. The requests whose turn it was used returned connections, so none dialed a new one, and an
// app that could serve many requests got one at a time.
func TestBreakerClosesAlthoughConnsAreReturned(t *testing.T) {
	const (
		most = 20
		slow = "GET /slow HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"
	)
	for way, front := range map[string]func(ingress, owner *node) *node{
		"local":  func(_, owner *node) *node { return owner },
		"remote": func(ingress, _ *node) *node { return ingress },
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ingress, owner, peers, app := dialedPair(t)
				n := front(ingress, owner)
				refuser := app
				if way == "remote" {
					refuser = peers
				}
				busy := n.sendManyRequests(most, slow)
				time.Sleep(300 * time.Millisecond) // until all are connected
				refuser.down.Store(true)
				late := n.sendMany(1)
				served(t, busy)
				served(t, late)
				for _, down := range []bool{true, false} {
					refuser.down.Store(down)
					began := time.Now()
					for range 5 {
						served(t, n.sendManyRequests(most, slow))
					}
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("%d requests took %v; are new connections refused: %v", 5*most, took, down)
					}
				}
			})
		})
	}
}
