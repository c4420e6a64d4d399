package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// Behind an app that was back, each long poll kept all others waiting for another
// turn: only the head of an answer told that it took connections again.
func TestLongPollIsNoReasonToWaitForAnAppThatIsBack(t *testing.T) {
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
					var first []*client
					for range polls {
						c := n.dial()
						c.send("%s", poll)
						first = append(first, c)
					}
					time.Sleep(time.Second) // until each has been told
					crowd := n.crowd(100)
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
