package proxy_test

import (
	"strings"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/queue"
	"shardway/shardmap"
)

func TestQueuedRequestIsServedByNewOwner(t *testing.T) {
	app := webApp(t, echo)
	ingress, owner := pair(t, app)
	ingress.swap(1, 2, held(route.ReasonMoving))
	c := ingress.dial()
	c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
	until(t, "waiting", func() bool { return ingress.room.Stats().Waiting == 1 })
	if owner.admitted.Load() != 0 {
		t.Fatal("a held request was sent")
	}
	owner.swap(2, 2, local(2))
	ingress.swap(2, 2, remote("owner", 2))
	res, body := c.answer("POST")
	if body != "POST /x hi" || res.Header.Get("Saw-Shardway-Epoch") != "2" {
		t.Errorf("answer = %q %v", body, res.Header)
	}
}

func TestQueuedRequestsTimeOut(t *testing.T) {
	for reason, code := range map[route.Reason]string{
		route.ReasonMoving: "queue-timeout", route.ReasonOrphaned: "queue-timeout", route.ReasonPaused: "queue-timeout",
		route.ReasonNoMap: "no-leader", route.ReasonNoLease: "no-leader",
	} {
		n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 20 * time.Millisecond })
		n.swap(1, 1, held(reason))
		c := n.dial()
		res, body := c.get("/")
		wantStatus(t, res, body, 503, code)
		if res.Header.Get("Retry-After") == "" || !strings.Contains(body, reason.String()) {
			t.Errorf("%v: %v %s", reason, res.Header, body)
		}
		n.swap(2, 2, local(2))
		if res, _ := c.get("/"); res.StatusCode != 200 {
			t.Errorf("%v: the connection did not live on: %v", reason, res.Status)
		}
	}
}

func TestWithoutLeaseRequestsWaitAtTheOwner(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 50 * time.Millisecond })
	n.lease.Store(0)
	c := n.dial()
	res, body := c.get("/")
	wantStatus(t, res, body, 503, "no-leader")
	n.lease.Store(int64(time.Second))
	n.refuse.Store(int32(route.RefusedNoLease))
	res, body = c.get("/")
	wantStatus(t, res, body, 503, "no-leader")
	n.refuse.Store(0)
	if res, _ := c.get("/"); res.StatusCode != 200 {
		t.Errorf("with a lease: %v", res.Status)
	}
}

func TestLeaseIsCheckedBeforeFirstByte(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	n.lease.Store(0)
	c := n.dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
	until(t, "admitted and given back", func() bool { return n.admitted.Load() == 1 && n.running.Load() == 0 })
	n.lease.Store(int64(time.Hour))
	n.swap(1, 1, local(1))
	if _, body := c.answer("POST"); body != "POST / hi" {
		t.Errorf("body = %q", body)
	}
}

func TestClientDisconnectReleasesQueuePlace(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.QueueWait = time.Minute })
	room := n.room
	n.swap(1, 2, held(route.ReasonMoving))
	c := n.dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 200000\r\n\r\nunread")
	until(t, "waiting", func() bool { return room.Stats().Waiting == 1 })
	_ = c.Close()
	until(t, "left", func() bool { return room.Stats().Waiting == 0 })
}

func TestFullQueueIsReportedAtOnce(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) {
		o.QueueWait = time.Minute
		o.Queue = queue.New(queue.Options{Requests: 1, Wait: time.Minute})
	})
	n.swap(1, 2, held(route.ReasonMoving))
	first := n.dial()
	first.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "waiting", func() bool { return n.room.Stats().Waiting == 1 })
	res, body := n.dial().get("/")
	wantStatus(t, res, body, 503, "queue-full")
	n.swap(2, 2, local(2))
	if res, _ := first.answer("GET"); res.StatusCode != 200 {
		t.Errorf("first = %v", res.Status)
	}
}

func TestTableWithoutShardsQueuesRequests(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	n.table.Store(route.NewTable(route.TableSpec{Generation: 10}))
	c := n.dial()
	c.send("GET /later HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "waiting", func() bool { return n.room.Stats().Waiting == 1 })
	n.swap(1, 1, local(1))
	if _, body := c.answer("GET"); body != "GET /later " {
		t.Errorf("body = %q", body)
	}
}

// Requests for a shard without a route in the table wait, as for a shard without an owner. Such a
// table is a bug of its producer. Once, these requests panicked, which aborted their clients.
func TestShardWithoutRouteQueuesRequests(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.QueueWait = time.Millisecond })
	n.swap(1, 1, func(shardmap.Shard) route.Route { return route.Route{} })
	res, body := n.dial().get("/")
	wantStatus(t, res, body, 503, "queue-timeout")
	n.swap(2, 2, func(shardmap.Shard) route.Route { return route.Route{Kind: 77} })
	res, body = n.dial().get("/")
	wantStatus(t, res, body, 503, "queue-timeout")
}

func TestOnlyMovingShardsQueueRequests(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	moving := shardmap.ShardOf("k", shards)
	n.swap(1, 2, func(s shardmap.Shard) route.Route {
		if s == moving {
			return route.Route{Kind: route.Queued, Reason: route.ReasonMoving}
		}
		return route.Route{Kind: route.Local, Epoch: 1}
	})
	key := "a"
	for shardmap.ShardOf(key, shards) == moving {
		key += "a"
	}
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", key)
	if res, _ := c.answer("GET"); res.StatusCode != 200 {
		t.Errorf("status = %v", res.Status)
	}
	if e := n.room.Stats().Entered; e != 0 {
		t.Errorf("%d requests were held", e)
	}
}
