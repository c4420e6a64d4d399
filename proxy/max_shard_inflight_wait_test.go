package proxy_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/queue"
)

// fastRamp releases all queued requests at once, because the limit of a busy app is not known.
func fastRamp(o *proxy.Options) {
	o.QueueWait = time.Minute
	o.Queue = queue.New(queue.Options{Wait: time.Minute, Batch: 1000})
}

// Requests that waited for the move of their shard and are released together wait for the limit of
// their shard. Once, they were rejected for good because of their number.
func TestQueuedRequestKeepsWaitingForShardLimit(t *testing.T) {
	const all, most = 20, 3
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			var under, highest atomic.Int32
			arrived, answer := make(chan struct{}, all), make(chan struct{})
			app := webApp(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/new" {
					return
				}
				for n := under.Add(1); ; {
					was := highest.Load()
					if n <= was || highest.CompareAndSwap(was, n) {
						break
					}
				}
				arrived <- struct{}{}
				<-answer
				under.Add(-1)
			})
			front, owner := start(t, app, fastRamp, func(o *proxy.Options) { o.MaxShardInflight, o.MaxShardConns, o.MaxUpstreamConns = most, 16, 64 })
			begins := slices.Repeat([]string{"GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 0\r\n"}, all/2)
			clients := front.queueTheseRequests(owner, begins...)
			for went := range all {
				until(t, "as many as may be are at the app", func() bool { return len(arrived) == min(went+most, all) })
				if went == 5 { // a request that was not queued is rejected while others are
					c := front.dial()
					c.send("GET /new HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
					if res, body := c.answer("GET"); res.StatusCode != 503 || res.Header.Get("Shardway-Error") != "shard-busy" {
						t.Errorf("one that has not waited: %s %s, want 503 shard-busy", res.Status, body)
					}
				}
				answer <- struct{}{}
			}
			for i, c := range clients {
				if res, body := c.answer("GET"); res.StatusCode != 200 {
					t.Errorf("request %d that has waited: %s %s", i, res.Status, body)
				}
			}
			if highest.Load() != most {
				t.Errorf("%d were under way at once, want %d", highest.Load(), most)
			}
			until(t, "nobody waits", func() bool { return front.room.Stats().Waiting == 0 })
			c := front.dial()
			c.send("GET /new HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			if res, body := c.answer("GET"); res.StatusCode != 200 {
				t.Errorf("after that: %s %s", res.Status, body)
			}
		})
	}
}

// Of requests that arrive at the owner at the same time, those beyond the limit fail at once. One that
// finds no connection, but does not exceed the limit, is served when a connection is free.
func TestRequestsBeyondShardLimitFailAtOnce(t *testing.T) {
	for _, at := range []string{"its owner", "another node"} {
		t.Run("at "+at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ingress, owner, _, _ := dialedPair(t, func(o *proxy.Options) {
					o.QueueWait, o.FirstByteTimeout, o.MaxShardInflight, o.MaxShardConns = time.Minute, time.Minute, 3, 2
				})
				front := ingress
				if at == "its owner" {
					front = owner
				}
				polls := front.atOnce(2, "/poll") // answered after half a minute
				time.Sleep(time.Second)           // until they are at the app
				told, want := answersSince(front.atOnce(4, "/x"), time.Now()), map[string]int{"503 shard-busy after 0s": 3, "200  after 29s": 1}
				if !maps.Equal(told, want) {
					t.Errorf("%v, want %v", told, want)
				}
				served(t, polls)
			})
		})
	}
}

// answersSince reads the responses of the clients. It returns how many there are of each kind.
func answersSince(crowd []*client, began time.Time) map[string]int {
	answers, told := make(chan string, len(crowd)), map[string]int{}
	for _, c := range crowd {
		go func() {
			res, _ := c.answer("GET")
			answers <- fmt.Sprint(res.StatusCode, " ", res.Header.Get("Shardway-Error"), " after ", time.Since(began).Round(time.Second))
		}()
	}
	for range crowd {
		told[<-answers]++
	}
	return told
}

// A request waits for the limit up to queue-wait. Then its response contains the reason.
func TestWaitForShardLimitEnds(t *testing.T) {
	for _, at := range []string{"its owner", "another node"} {
		t.Run("at "+at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ingress, owner, _, _ := dialedPair(t, fastRamp, func(o *proxy.Options) {
					o.QueueWait, o.MaxShardInflight, o.FirstByteTimeout = 5*time.Second, 2, time.Minute
				})
				front := ingress
				if at == "its owner" {
					front = owner
				}
				began := time.Now()
				front.swap(1, 2, held(route.ReasonMoving))
				crowd := front.atOnce(6, "/poll") // answered after half a minute
				time.Sleep(time.Second)
				owner.swap(2, 2, local(2))
				if front != owner {
					front.swap(2, 2, remote("owner", 2))
				}
				told := answersSince(crowd, began)
				if told["200  after 31s"] != 2 || told["503 shard-busy after 5s"] != 4 {
					t.Errorf("%v, want 4 refused after 5 s, and 2 answered after 31 s", told)
				}
			})
		})
	}
}
