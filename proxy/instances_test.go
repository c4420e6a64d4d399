package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/proxy/accesslog"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/upstream"
	"shardway/shardmap"
)

// instanceApps are the app instances of one node. Each responds with its index and the headers that
// the node has set.
type instanceApps struct {
	dials   []func(context.Context) (net.Conn, error)
	hits    [3]atomic.Int32
	release chan struct{} // closed when requests with the header X-Wait may end
}

// newInstanceApps starts three app instances.
func newInstanceApps(t *testing.T) *instanceApps {
	t.Helper()
	apps := &instanceApps{release: make(chan struct{})}
	for i := range apps.hits {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			apps.hits[i].Add(1)
			if r.Header.Get("X-Wait") != "" {
				<-apps.release
			}
			_, _ = fmt.Fprintf(w, "%d instance=%s epoch=%s", i, strings.Join(r.Header.Values("Shardway-Instance"), ","), r.Header.Get("Shardway-Epoch"))
		}))
		t.Cleanup(server.Close)
		dial, err := upstream.URLDialer(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		apps.dials = append(apps.dials, dial)
	}
	return apps
}

// options makes the apps the instances of a node.
func (apps *instanceApps) options(o *proxy.Options) {
	o.DialUpstream, o.FurtherUpstreams = apps.dials[0], apps.dials[1:]
}

// atInstance routes all shards to an app instance.
func atInstance(instance uint8, epoch uint64) func(shardmap.Shard) route.Route {
	return func(shardmap.Shard) route.Route {
		return route.Route{Kind: route.Local, Instance: instance, Epoch: epoch}
	}
}

// get sends a request and returns the body of the response.
func (n *node) getBody(t *testing.T, header ...string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.addr+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body := make([]byte, 100)
	length, _ := response.Body.Read(body)
	return string(body[:length])
}

func TestRequestsGoToTheInstanceOfTheirShard(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", apps.options)
	for instance := range uint8(3) {
		epoch := uint64(instance) + 5
		n.swap(epoch, epoch, atInstance(instance, epoch))
		for range 3 { // new and reused connections, and the event loop
			want := fmt.Sprintf("%d instance=%d epoch=%d", instance, instance+1, epoch)
			if got := n.getBody(t, "X-Shard-Key", "alice", "Shardway-Instance", "9"); got != want {
				t.Errorf("response %q, want %q", got, want)
			}
		}
	}
}

func TestAccessLogNamesTheInstance(t *testing.T) {
	apps := newInstanceApps(t)
	var log journal
	n := newNode(t, "a", "", apps.options, func(o *proxy.Options) { o.Access = &accesslog.Config{Log: zerolog.New(&log)} })
	for instance := range uint8(3) {
		epoch := uint64(instance) + 5
		n.swap(epoch, epoch, atInstance(instance, epoch))
		_ = n.getBody(t, "X-Shard-Key", "alice")
		if got := log.next(t, int(instance)+1)["instance"]; got != float64(instance+1) {
			t.Errorf("instance = %v, want %d", got, instance+1)
		}
	}
	n.swap(8, 8, func(shardmap.Shard) route.Route { return route.Route{Kind: route.Remote, Node: "gone", Epoch: 8} })
	_ = n.getBody(t, "X-Shard-Key", "alice")
	if line := log.next(t, 4); line["instance"] != nil {
		t.Errorf("a forwarded request names an instance: %v", line)
	}
}

func TestMetricsCountRequestsOfEachInstance(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", apps.options)
	n.swap(5, 5, atInstance(2, 5))
	for range 4 {
		_ = n.getBody(t, "X-Shard-Key", "alice")
	}
	for instance, want := range map[string]float64{"1": 0, "2": 0, "3": 4} {
		if got, _ := gathered(t, n, "shardway_app_instance_requests_total", []string{instance}); got != want {
			t.Errorf("%v requests of instance %s, want %v", got, instance, want)
		}
	}
	if got, _ := gathered(t, n, "shardway_app_instance_connections", []string{"3"}); got < 1 {
		t.Errorf("%v connections to instance 3", got)
	}
	single := newNode(t, "b", "", func(o *proxy.Options) { o.DialUpstream = apps.dials[0] })
	_ = single.getBody(t, "X-Shard-Key", "alice")
	if got, _ := gathered(t, single, "shardway_app_instance_requests_total", []string{"1"}); got != 0 {
		t.Errorf("a node with one instance counts %v requests of it", got)
	}
}

func TestNodeWithOneInstanceSendsNoInstanceHeader(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", func(o *proxy.Options) { o.DialUpstream = apps.dials[0] })
	if got := n.getBody(t, "X-Shard-Key", "alice", "Shardway-Instance", "9"); got != "0 instance= epoch=1" {
		t.Errorf("response %q", got)
	}
}

// A shard may move to a sibling after a request has found its connection, and before the node admits it.
// The old instance must not get the request under the new epoch.
func TestRequestIsRoutedAgainIfItsShardMovesToASibling(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", apps.options)
	epoch := uint64(1)
	for range 3 { // new and idle connections, and the event loop
		for instance := range uint8(3) {
			epoch++
			old := fmt.Sprintf("%d instance=%d epoch=%d", instance, instance+1, epoch)
			n.swap(epoch, epoch, atInstance(instance, epoch))
			if got := n.getBody(t, "X-Shard-Key", "alice"); got != old { // leaves an idle connection
				t.Errorf("response %q, want %q", got, old)
			}
			epoch++
			sibling := (instance + 1) % 3
			move := func() { n.swap(epoch, epoch, atInstance(sibling, epoch)) }
			n.beforeAdmit.Store(&move)
			want := fmt.Sprintf("%d instance=%d epoch=%d", sibling, sibling+1, epoch)
			if got := n.getBody(t, "X-Shard-Key", "alice"); got != want {
				t.Errorf("response %q, want %q", got, want)
			}
		}
	}
}

// A shard may also move to a sibling while the node dials the old instance.
func TestRequestIsRoutedAgainIfItsShardMovesDuringTheDial(t *testing.T) {
	apps := newInstanceApps(t)
	var n *node
	var once sync.Once
	dial := apps.dials[0]
	apps.dials[0] = func(ctx context.Context) (net.Conn, error) {
		once.Do(func() { n.swap(9, 9, atInstance(1, 9)) }) // the dial of the old instance succeeds afterwards
		return dial(ctx)
	}
	n = newNode(t, "a", "", apps.options)
	if got := n.getBody(t, "X-Shard-Key", "alice"); got != "1 instance=2 epoch=9" {
		t.Errorf("response %q", got)
	}
	if hits := apps.hits[0].Load(); hits != 0 {
		t.Errorf("the old instance got %d requests", hits)
	}
}

func TestRequestsWithoutKeyUseHealthyInstances(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", apps.options, func(o *proxy.Options) {
		o.InstanceHealthy = func(instance int) bool { return instance != 1 }
		o.Keys = keysOf(t, shardkey.Spec{OnMissingKey: "local"})
	})
	for range 6 {
		_ = n.getBody(t)
	}
	if apps.hits[0].Load() != 3 || apps.hits[1].Load() != 0 || apps.hits[2].Load() != 3 {
		t.Errorf("instances got %d, %d and %d requests", apps.hits[0].Load(), apps.hits[1].Load(), apps.hits[2].Load())
	}
}

func TestShardOfAnAbsentInstanceWaits(t *testing.T) {
	apps := newInstanceApps(t)
	apps.dials[1] = nil
	n := newNode(t, "a", "", apps.options)
	n.swap(5, 5, atInstance(1, 5))
	done := make(chan string, 1)
	go func() { done <- n.getBody(t, "X-Shard-Key", "alice") }()
	until(t, "the request waits or has a response", func() bool { return n.room.Stats().Waiting > 0 || len(done) > 0 })
	n.swap(6, 6, atInstance(2, 6))
	if got := <-done; got != "2 instance=3 epoch=6" {
		t.Errorf("response %q", got)
	}
}

// A request waits for the in-flight limit of its shard at the instance of the shard. It must not wait for the
// old instance, which may hang.
func TestQueuedRequestsMoveToTheSiblingOfTheirShard(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", apps.options, func(o *proxy.Options) {
		o.QueueWait, o.MaxShardInflight, o.ShardQueue = time.Minute, 1, 4
	})
	first, queued := make(chan string, 1), make(chan string, 1)
	go func() { first <- n.getBody(t, "X-Shard-Key", "alice", "X-Wait", "1") }()
	for apps.hits[0].Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { queued <- n.getBody(t, "X-Shard-Key", "alice") }()
	time.Sleep(50 * time.Millisecond)
	n.swap(6, 6, atInstance(1, 6))
	select {
	case got := <-queued:
		if got != "1 instance=2 epoch=6" {
			t.Errorf("response %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the queued request waits for the instance that has lost its shard")
	}
	close(apps.release)
	if got := <-first; got != "0 instance=1 epoch=1" {
		t.Errorf("response %q to the first request", got)
	}
	if hits := apps.hits[0].Load(); hits != 1 {
		t.Errorf("the old instance got %d requests", hits)
	}
}

// A resumable WebSocket moves between the app instances of one node without a gap, as between nodes.
// An app that answers no Ping has not proved that it has read everything. Its Close 1012 is then
// treated as its own, so the new instance gets Shardway-WebSocket-Gap.
func TestWebSocketMovesToTheSiblingOfItsShard(t *testing.T) {
	const count = 100
	for deaf, gap := range map[bool]string{false: "", true: "1"} {
		t.Run(fmt.Sprintf("deaf=%v", deaf), func(t *testing.T) {
			inSockets(t, func() *chat { return &chat{deaf: deaf} }, func(t *socketTest) {
				c := t.front.socket()
				var want []string
				for i := range count {
					want = append(want, strconv.Itoa(i))
				}
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for _, text := range want {
						time.Sleep(500 * time.Microsecond)
						c.sendText(text)
					}
				}()
				time.Sleep(20 * time.Millisecond)
				t.propose()
				t.until("the old instance is done", func() bool { return t.a.running.Load() == 0 })
				t.a.swap(t.epoch, t.epoch, atInstance(1, t.epoch))
				for _, other := range t.nodes {
					if other != t.a {
						other.swap(t.epoch, t.epoch, remote(t.a.id, t.epoch))
					}
				}
				<-sent
				t.until("a second upstream connection", func() bool { return len(t.app.upgradeRequests()) == 2 })
				if !deaf { // with a gap, messages may be missing
					t.until("got", t.app.has(count))
					t.app.wantGot(want...)
				}
				requests := t.app.upgradeRequests()
				if len(requests) != 2 {
					t.Fatalf("%d upstream connections, want 2", len(requests))
				}
				for i, header := range requests {
					if got := header.Get("Shardway-Instance"); got != strconv.Itoa(i+1) {
						t.Errorf("upstream connection %d: instance %q", i, got)
					}
				}
				if got := requests[1].Get("Shardway-WebSocket-Gap"); got != gap {
					t.Errorf("gap %q, want %q", got, gap)
				}
				_ = c.Close()
			}, func(o *proxy.Options) { o.FurtherUpstreams = append(o.FurtherUpstreams, o.DialUpstream) })
		})
	}
}
