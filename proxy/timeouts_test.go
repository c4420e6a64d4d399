package proxy_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// Each timeout covers its own wait only. The clock is read once after the response is sent, for the
// time at the app, the total time, and the next idle time.
func TestEachTimeoutAppliesToItsOwnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", simple, func(o *proxy.Options) { o.QueueWait = 10 * time.Second })
		c := n.dial()
		c.get("/slow")               // takes half a second
		time.Sleep(20 * time.Second) // idle time of the client
		n.swap(1, 2, held(route.ReasonMoving))
		go func() {
			time.Sleep(3 * time.Second)
			n.swap(2, 2, local(2))
		}()
		c.get("/slow")
		n.swap(3, 4, held(route.ReasonMoving))
		c.get("/never")
		_ = c.Close()
		synctest.Wait()
		for name, want := range map[string]float64{
			"shardway_upstream_duration_seconds": 0.5 + 0.5,
			"shardway_request_duration_seconds":  0.5 + 3 + 0.5 + 10,
			"shardway_queue_wait_seconds":        3 + 10,
		} {
			if got := seconds(t, n, name); math.Abs(got-want) > 0.01 {
				t.Errorf("%s sums up to %v, want %v", name, got, want)
			}
		}
	})
}

// The idle timeout begins when the node starts to wait for a request. The time that was spent
// discarding a slow, unwanted body does not count.
func TestIdleTimeBeginsWithTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", simple)
		for name, ask := range map[string]func(c *client){
			"after an answer": func(c *client) { c.get("/slow") },
			"after a request that was held": func(c *client) {
				n.swap(1, 2, held(route.ReasonMoving))
				go func() {
					time.Sleep(9 * time.Second)
					n.swap(2, 2, local(2))
				}()
				c.get("/")
			},
			"after what was left of a body": func(c *client) {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n") // without a key
				if res, _ := c.answer("POST"); res.StatusCode != 400 {
					t.Errorf("status %d, want 400", res.StatusCode)
				}
				for range 20 {
					time.Sleep(time.Second / 2)
					c.send("x")
				}
			},
			"after a request that came with another": func(c *client) {
				c.send("GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\nGET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				c.answer("GET")
				c.answer("GET")
			},
		} {
			c := n.dial()
			ask(c)
			began := time.Now()
			c.closed()
			if took := time.Since(began); took < 75*time.Second*15/16 || took > 77*time.Second {
				t.Errorf("%s: closed after %v, want 75 s", name, took)
			}
			_ = c.Close()
		}
	})
}
