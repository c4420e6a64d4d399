package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/internal/headerrules"
	"shardway/proxy"
	"shardway/proxy/keylimit"
	"shardway/proxy/route"
	"shardway/proxy/upstream"
	"shardway/shardmap"
)

// keysOfServices is a key configuration with three services.
const keysOfServices = `{"services":{` +
	`"chat":{"routes":["*.chat.example","example.com/chat"],"shards":8,"key":["path:2","header:x-room"],"on_missing_key":"reject"},` +
	`"default":{"routes":["/"],"shards":4,"key":["header:x-shard-key"],"on_missing_key":"reject"},` +
	`"search":{"routes":["/search","search.example"],"shards":4,"key":["query:q"],"on_missing_key":"local"}}}`

// ranges returns the ranges of these services, in an order that differs from that of their names.
func ranges() []route.Service {
	return []route.Service{{Name: "search", First: 0, Shards: 4}, {Name: "chat", First: 4, Shards: 8}, {Name: "default", First: 12, Shards: 4}}
}

func rangeOf(list []route.Service, name string) route.Service {
	for _, service := range list {
		if service.Name == name {
			return service
		}
	}
	return route.Service{}
}

// useServices gives the node a table with services, of epoch 2.
func (n *node) useServices(t *testing.T, list []route.Service, routeOf func(shardmap.Shard) route.Route) {
	t.Helper()
	n.keys, n.keysSince, n.services = parsedKeys(t, keysOfServices), 2, list
	n.swap(2, 2, routeOf)
}

// startServices starts nodes whose clients use the services.
func startServices(t *testing.T, start starter, app string, change ...func(*proxy.Options)) (front, owner *node) {
	t.Helper()
	front, owner = start(t, app, change...)
	owner.useServices(t, ranges(), local(2))
	if front != owner {
		front.useServices(t, ranges(), remote("owner", 2))
	}
	return front, owner
}

func TestRequestsReachTheirService(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := startServices(t, start, webApp(t, echo))
			c := front.dial()
			for _, tc := range []struct{ host, target, lines, service, key string }{
				{"a.chat.example", "/rooms/tea", "", "chat", "tea"},
				{"A.Chat.Example.:8080", "/x", "X-Room: tea\r\n", "chat", "tea"},
				{"example.com", "/chat/tea", "", "chat", "tea"},
				{"example.com", "/chatter/tea", "X-Shard-Key: k\r\n", "default", "k"},
				{"example.com", "/%73earch?q=a", "", "search", "a"},
				{"search.example", "/chat/x?q=a", "X-Shard-Key: k\r\n", "search", "a"},
				{"search.example", "/a/../b;c//d?q=a", "", "search", "a"},
				{"127.0.0.1:80", "/", "X-Shard-Key: k\r\n", "default", "k"},
			} {
				c.send("GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", tc.target, tc.host, tc.lines)
				res, body := c.answer("GET")
				want := shardmap.ShardOf(tc.key, rangeOf(ranges(), tc.service).Shards)
				if services, shard := res.Header.Values("Saw-Shardway-Service"), res.Header.Values("Saw-Shardway-Shard"); fmt.Sprint(services, shard) != fmt.Sprintf("[%s] [%d]", tc.service, want) || res.Header.Get("Saw-Shardway-Key") != tc.key {
					t.Errorf("%s%s: %d %s, service %q, shard %q, key %q, want %s %d %s", tc.host, tc.target, res.StatusCode, body, services, shard, res.Header.Get("Saw-Shardway-Key"), tc.service, want, tc.key)
				}
			}
		})
	}
}

func TestRequestsWithoutServiceAreRejected(t *testing.T) {
	const keys = `{"services":{"chat":{"routes":["chat.example"],"shards":16,"key":["header:x-shard-key"],"on_missing_key":"reject"}}}`
	n := newNode(t, "a", webApp(t, echo))
	n.keys, n.keysSince, n.services = parsedKeys(t, keys), 2, []route.Service{{Name: "chat", Shards: 16}}
	n.swap(2, 2, local(2))
	c := n.dial()
	for _, host := range []string{"example.com", "chat.example.com", "xchat.example", "", "[::1]"} {
		c.send("GET / HTTP/1.1\r\nHost: %s\r\nX-Shard-Key: k\r\n\r\n", host)
		if res, body := c.answer("GET"); res.StatusCode != http.StatusNotFound || res.Header.Get("Shardway-Error") != "no-service" {
			if host == "" && res.StatusCode == http.StatusBadRequest { // HTTP/1.1 requires one
				c = n.dial()
				continue
			}
			t.Errorf("%q: %d %s", host, res.StatusCode, body)
		}
	}
}

// The node and the app must not disagree about the service of a request: two services may run the same
// code, and a client must not reach one of them with the shards of the other one.
func TestAmbiguousServicesAreRejected(t *testing.T) {
	n, _ := startServices(t, pair, webApp(t, echo))
	for _, tc := range []struct{ host, target, lines string }{
		{"example.com", "/Chat/x", ""},
		{"example.com", "/chat;x/y", ""},
		{"example.com", "/chat%2Fx", ""},
		{"example.com", "/x/../chat/y", ""},
		{"example.com", "/chat/x/..", ""},
		{"example.com", "/%2e/chat/y", ""},
		{"example.com", "//chat/y", ""},
		{"example.com", `/chat\y`, ""},
		{"example.com", "/chat%5cy", ""},
		{"example.com", "/SEARCH?q=a", ""},
		{"example.com", "/search/..;/chat?q=a", ""},
		{"a.chat.example..", "/x/y", ""},
		{".chat.example", "/x/y", ""},
		{"a..chat.example", "/x/y", ""},
		{"a.chat.example:80:81", "/x/y", ""},
		{"a.chat.example:x", "/x/y", ""},
		{"u@a.chat.example", "/x/y", ""},
		{"a.chat.example,b", "/x/y", ""},
		{"a.chat.example%00", "/x/y", ""},
		{"a.chat.example\t.evil", "/x/y", ""},
		{"a!.chat.example", "/x/y", ""},
		{"a.chat.example", "/x/y", "Host: search.example\r\n"},
		{"a.chat.example", "/x/y", "Host : search.example\r\n"},
		{"a.chat.example", "http://search.example/x/y?q=a", ""},
		{"a.chat.example", "http://u@a.chat.example/x/y", ""},
		{strings.Repeat("a.", 200) + "chat.example", "/x/y", ""},
		{"a.chat.example", "/x/y", "Host: a.chat.example\r\n"},
		{"a.chat.example", "/x/y", "HOST: a.chat.example\r\n"},
		{"a.chat.example", "/x/y", "Host:\r\n"},
		{"a.chat.example", "http://a.chat.example:81/x/y", ""},
		{"a.chat.example", "http:///x/y", ""},
		{"a.chat.example", "//search.example/x/y?q=a", ""},
		{"", "http://a.chat.example/x/y", ""},
		{"[a.chat.example]", "/x/y", ""},
		{"[a.chat.example]:80", "/x/y", ""},
		{"ch\xc3\xa4t.chat.example", "/x/y", ""},
		{"a.chat\xe3\x80\x82example", "/x/y", ""},
		{"example.com", "/search%00?q=a", ""},
		{"example.com", "/search%3Fq=a", ""},
		{"example.com", "/search#?q=a", ""},
		{"example.com", "/search\x00?q=a", ""},
		{"example.com", "/ch%00at/x", ""},
		{"example.com", "/%c0%afchat/x", ""},
	} {
		c := n.dial()
		c.send("GET %s HTTP/1.1\r\nHost: %s\r\nX-Shard-Key: k\r\n%s\r\n", tc.target, tc.host, tc.lines)
		if res, body := c.answer("GET"); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s %q: %d %s, service %q", tc.host, tc.target, tc.lines, res.StatusCode, body, res.Header.Get("Saw-Shardway-Service"))
		}
	}
	c := n.dial() // the host that the app gets decides
	c.send("GET http://search.example/?q=a HTTP/1.1\r\nHost: search.example:80\r\n\r\n")
	if res, body := c.answer("GET"); res.Header.Get("Saw-Shardway-Service") != "search" {
		t.Errorf("absolute form: %d %s", res.StatusCode, body)
	}
	c.send("GET /?q=a HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-Host: search.example\r\nForwarded: host=search.example\r\nX-Original-URL: /search\r\nX-Shard-Key: k\r\n\r\n")
	if res, body := c.answer("GET"); res.Header.Get("Saw-Shardway-Service") != "default" {
		t.Errorf("a forwarding header selects the service: %d %s", res.StatusCode, body)
	}
}

// HTTP/1.0 does not require a Host. The host of the app decides in all forms of the target.
func TestHostOfOldRequestsSelectsService(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := startServices(t, start, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Saw-Host", r.Host)
				echo(w, r)
			}))
			for _, tc := range []struct{ target, lines, service, host string }{
				{"/?q=a", "X-Shard-Key: k\r\n", "default", ""},
				{"/search?q=a", "", "search", ""},
				{"/?q=a", "Host: search.example\r\n", "search", "search.example"},
				{"/?q=a", "Host: SEARCH.example.:80\r\n", "search", "SEARCH.example.:80"},
				{"http://search.example?q=a", "Host: search.example\r\n", "search", "search.example"},
				{"HTTP://search.example/?q=a", "Host: search.example\r\n", "search", "search.example"},
				{"http://search.example/?q=a", "", "search", "search.example"},
				{"http://search.example/?q=a", "Host: a.chat.example\r\nX-Room: k\r\n", "400", ""},
				{"/?q=a", "Host: search.example\r\nHost: search.example\r\n", "400", ""},
			} {
				c := front.dial()
				c.send("GET %s HTTP/1.0\r\n%s\r\n", tc.target, tc.lines)
				res, body := c.answer("GET")
				if tc.service == "400" && res.StatusCode == http.StatusBadRequest {
					continue
				}
				if service, host := res.Header.Get("Saw-Shardway-Service"), res.Header.Get("Saw-Host"); service != tc.service || tc.host != "" && host != tc.host {
					t.Errorf("%s %q: %d %s, service %q, host %q", tc.target, tc.lines, res.StatusCode, body, service, host)
				}
			}
		})
	}
}

// A client cannot set the headers that select the service at the owner.
func TestClientsCannotChooseServiceAtOwner(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := startServices(t, start, webApp(t, echo))
			for _, lines := range []string{
				"Shardway-Service: chat\r\n", "shardway-service: chat\r\nShardway-Service: chat\r\n", "Shardway_Service: chat\r\n", "Shardway.Service: chat\r\n", "Shardway-Service:\r\n",
				"Shardway-Shard: 7\r\nShardway-Service: chat\r\n", "Connection: Shardway-Service, Shardway-Shard\r\n", "Shardway-Map: 2 2\r\nShardway-Service: chat\r\nShardway-Shard: 0\r\n", "SHARDWAY-SERVICE: chat\r\n", "Shardway__Service: chat\r\n", "Connection: X-Shard\r\nShardway-Service: chat\r\n",
			} {
				c := front.dial()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%sTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nShardway-Service: chat\r\n\r\n", lines)
				res, body := c.answer("POST")
				if got := res.Header.Values("Saw-Shardway-Service"); len(got) != 1 || got[0] != "default" {
					t.Errorf("%q: %d %s, service %q", lines, res.StatusCode, body, got)
				}
				if got := res.Header.Values("Saw-Shardway-Shard"); len(got) != 1 || got[0] != strconv.Itoa(int(shardmap.ShardOf("k", 4))) {
					t.Errorf("%q: shard %q", lines, got)
				}
			}
		})
	}
}

// Without services, the app gets no header about them.
func TestRequestsWithoutServicesAreUnchanged(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo))
			c := front.dial()
			c.send("GET /search?q=a HTTP/1.1\r\nHost: a..b\r\nX-Shard-Key: k\r\nShardway-Service: chat\r\n\r\n")
			res, body := c.answer("GET")
			if res.StatusCode != http.StatusOK || res.Header.Values("Saw-Shardway-Service") != nil || res.Header.Get("Saw-Shardway-Shard") != strconv.Itoa(int(shardmap.ShardOf("k", shards))) {
				t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
			}
		})
	}
}

// Each node counts shards by its own list of services, so a node with another list serves the right shard.
func TestNodesMayHaveDifferentRanges(t *testing.T) {
	ingress, owner := startServices(t, pair, webApp(t, echo))
	others := []route.Service{{Name: "search", First: 0, Shards: 4}, {Name: "default", First: 4, Shards: 4}, {Name: "chat", First: 8, Shards: 8}}
	want := shardmap.ShardOf("tea", 8)
	owner.useServices(t, others, func(s shardmap.Shard) route.Route {
		if s == 8+want {
			return route.Route{Kind: route.Local, Epoch: 7}
		}
		return route.Route{Kind: route.Queued, Reason: route.ReasonMoving}
	})
	c := ingress.dial()
	c.send("GET /chat/tea HTTP/1.1\r\nHost: example.com\r\n\r\n")
	res, body := c.answer("GET")
	if res.Header.Get("Saw-Shardway-Epoch") != "7" || res.Header.Get("Saw-Shardway-Shard") != strconv.Itoa(int(want)) {
		t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
	}
}

func TestOwnerRefusesUnknownShardOfService(t *testing.T) {
	_, owner := startServices(t, pair, webApp(t, echo))
	const request = "GET / HTTP/1.1\r\nHost: h\r\nShardway-Map: 2 2\r\nShardway-Key: k\r\n%s\r\n"
	for _, tc := range []struct{ lines, want string }{
		{"Shardway-Service: chat\r\nShardway-Shard: 7\r\n", "200"},
		{"Shardway-Service: chat\r\nShardway-Shard: 8\r\n", "not-owner"}, // it is a shard of the next service
		{"Shardway-Service: chat\r\nShardway-Shard: 65535\r\n", "not-owner"},
		{"Shardway-Service: other\r\nShardway-Shard: 0\r\n", "not-owner"},
		{"Shardway-Service: other\r\nShardway-Shard: none\r\n", "not-owner"},
		{"Shardway-Service: search\r\nShardway-Shard: none\r\n", "200"},
		{"Shardway-Shard: 3\r\n", "200"}, // the service default
		{"Shardway-Shard: 4\r\n", "not-owner"},
		{"Shardway-Service: Chat\r\nShardway-Shard: 0\r\n", "misrouted"},
		{"Shardway-Service: \r\nShardway-Shard: 0\r\n", "misrouted"},
		{"Shardway-Service: chat,search\r\nShardway-Shard: 0\r\n", "misrouted"},
		{"Shardway-Service: " + strings.Repeat("a", 33) + "\r\nShardway-Shard: 0\r\n", "misrouted"},
		{"Shardway-Service: chat\r\n", "misrouted"},
	} {
		c := owner.stream()
		c.send(request, tc.lines)
		res, body := c.answer("GET")
		got := strconv.Itoa(res.StatusCode)
		if res.StatusCode == http.StatusMisdirectedRequest {
			if got = res.Header.Get("Shardway-Refused"); got == "" {
				got = res.Header.Get("Shardway-Error")
			}
		}
		if got != tc.want {
			t.Errorf("%q: %d %s %s, want %s", tc.lines, res.StatusCode, got, body, tc.want)
		}
	}
}

// A service may be part of the key configuration before the table contains its range.
func TestRequestsWaitForTheirService(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo))
			without := ranges()[1:]
			owner.useServices(t, ranges(), local(2))
			routes := local(2)
			if front != owner {
				routes = remote("owner", 2)
			}
			front.useServices(t, without, routes)
			c, keyless := front.dial(), front.dial()
			c.send("GET /search?q=a HTTP/1.1\r\nHost: h\r\n\r\n")
			keyless.send("GET /search HTTP/1.1\r\nHost: h\r\n\r\n")
			until(t, "waiting", func() bool { return front.room.Stats().Waiting == 2 })
			front.services = ranges()
			front.swap(2, 2, routes)
			for _, client := range []*client{c, keyless} {
				if res, body := client.answer("GET"); res.Header.Get("Saw-Shardway-Service") != "search" {
					t.Errorf("%d %s", res.StatusCode, body)
				}
			}
		})
	}
	long := newNode(t, "b", webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 50 * time.Millisecond })
	long.useServices(t, []route.Service{{Name: "search", First: 14, Shards: 4}}, local(2)) // the map is not long enough yet
	c := long.dial()
	c.send("GET /search?q=a HTTP/1.1\r\nHost: h\r\n\r\n")
	if res, body := c.answer("GET"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// Error responses contain the service of the request and the shard within the service.
func TestProblemsNameTheService(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := startServices(t, start, webApp(t, echo), func(o *proxy.Options) {
				o.QueueWait, o.AcquireError = 50*time.Millisecond, func(shardmap.Shard) string { return "no disk" }
			})
			owner.useServices(t, ranges(), held(route.ReasonAcquiring))
			c := front.dial()
			c.send("GET /chat/tea HTTP/1.1\r\nHost: example.com\r\n\r\n")
			res, body := c.answer("GET")
			shard := shardmap.ShardOf("tea", 8)
			for _, want := range []string{`"service":"chat"`, fmt.Sprintf(`"shard":%d,`, shard), fmt.Sprintf("shard %d of service chat in time", shard)} {
				if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, want) {
					t.Errorf("%d %s, want %s", res.StatusCode, body, want)
				}
			}
		})
	}
}

// A change of the key configuration gives a waiting request another service, and another shard.
func TestWaitingRequestsFindTheirServiceAgain(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	n.swap(1, 1, held(route.ReasonMoving))
	c := n.dial()
	c.send("GET /chat/tea HTTP/1.1\r\nHost: example.com\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "waiting", func() bool { return n.room.Stats().Waiting == 1 })
	n.useServices(t, ranges(), held(route.ReasonMoving))
	n.swap(3, 3, local(3))
	res, body := c.answer("GET")
	if res.Header.Get("Saw-Shardway-Service") != "chat" || res.Header.Get("Saw-Shardway-Key") != "tea" || res.Header.Get("Saw-Shardway-Shard") != strconv.Itoa(int(shardmap.ShardOf("tea", 8))) {
		t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
	}
	n.keys, n.services = parsedKeys(t, `{"key":["header:x-shard-key"],"on_missing_key":"reject"}`), nil
	n.swap(4, 4, local(4))
	c.send("GET /chat/tea HTTP/1.1\r\nHost: example.com\r\nX-Shard-Key: k\r\n\r\n")
	if res, _ = c.answer("GET"); res.Header.Get("Saw-Shardway-Service") != "" || res.Header.Get("Saw-Shardway-Key") != "k" {
		t.Errorf("%v", res.Header)
	}
}

// A cluster may have services that the key configuration does not know. Then all requests belong to the
// service default.
func TestKeysWithoutServicesBelongToDefault(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo))
			owner.services, front.services = ranges(), ranges()
			first := rangeOf(ranges(), "default").First
			owner.swap(2, 2, func(s shardmap.Shard) route.Route {
				if s < first {
					return route.Route{Kind: route.Queued, Reason: route.ReasonMoving}
				}
				return route.Route{Kind: route.Local, Epoch: 2}
			})
			if front != owner {
				front.swap(2, 2, remote("owner", 2))
			}
			c := front.dial()
			for i := range 8 {
				key := strconv.Itoa(i)
				c.send("GET /search HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", key)
				if res, body := c.answer("GET"); res.Header.Get("Saw-Shardway-Shard") != strconv.Itoa(int(shardmap.ShardOf(key, 4))) || res.Header.Get("Saw-Shardway-Service") != "" {
					t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
				}
			}
		})
	}
}

// atServices routes the shards of each service to its app instance.
func atServices(epoch uint64, instances map[string]uint8) func(shardmap.Shard) route.Route {
	return func(s shardmap.Shard) route.Route {
		for _, service := range ranges() {
			if s >= service.First && int(s) < int(service.First)+service.Shards {
				return route.Route{Kind: route.Local, Epoch: epoch, Instance: instances[service.Name]}
			}
		}
		return route.Route{Kind: route.Queued, Reason: route.ReasonOrphaned}
	}
}

// The app of one service never gets a request of another one, also if the map still has the numbers of an
// earlier configuration.
func TestRequestsReachInstanceOfTheirService(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", apps.options, func(o *proxy.Options) {
		o.ServiceInstances = map[string]upstream.InstanceBits{"chat": upstream.InstanceBits(0).With(0), "search": upstream.InstanceBits(0).With(1).With(2)}
		o.QueueWait = 300 * time.Millisecond
	})
	n.useServices(t, ranges(), atServices(2, map[string]uint8{"chat": 0, "search": 1}))
	c := n.dial()
	for target, instance := range map[string]string{"/chat/x": "0", "/search?q=x": "1"} {
		c.send("GET %s HTTP/1.1\r\nHost: example.com\r\n\r\n", target)
		if res, body := c.answer("GET"); !strings.HasPrefix(body, instance+" ") {
			t.Errorf("%s: %d %s, want instance %s", target, res.StatusCode, body, instance)
		}
	}
	seen := map[string]bool{}
	for range 8 { // requests without a key use the instances of their service in turn
		c.send("GET /search HTTP/1.1\r\nHost: example.com\r\n\r\n")
		_, body := c.answer("GET")
		seen[body[:1]] = true
	}
	if !seen["1"] || !seen["2"] || len(seen) != 2 {
		t.Errorf("requests without a key reached the instances %v", seen)
	}
	before := apps.hits[1].Load()
	n.swap(3, 3, atServices(3, map[string]uint8{"chat": 1, "search": 0}))
	for _, target := range []string{"/chat/x", "/search?q=x"} {
		c.send("GET %s HTTP/1.1\r\nHost: example.com\r\n\r\n", target)
		if res, body := c.answer("GET"); res.StatusCode < 500 {
			t.Errorf("%s: %d %s", target, res.StatusCode, body)
		}
	}
	if after := apps.hits[1].Load(); after != before {
		t.Errorf("the app of another service got %d requests", after-before)
	}
}

// A node that does not run a service forwards its requests, also those without a key.
func TestKeylessRequestsReachNodeOfTheirService(t *testing.T) {
	apps := newInstanceApps(t)
	owner := newNode(t, "owner", webApp(t, echo), func(o *proxy.Options) {
		o.ServiceInstances = map[string]upstream.InstanceBits{"search": upstream.InstanceBits(0).With(0)}
	})
	ingress := newNode(t, "ingress", "", apps.options, func(o *proxy.Options) {
		o.ServiceInstances = map[string]upstream.InstanceBits{"chat": upstream.InstanceBits(0).With(0)}
	})
	ingress.knows("owner", owner)
	owner.useServices(t, ranges(), local(2))
	search := rangeOf(ranges(), "search")
	ingress.useServices(t, ranges(), func(s shardmap.Shard) route.Route {
		if s >= search.First && int(s) < int(search.First)+search.Shards {
			return route.Route{Kind: route.Remote, Node: "owner", Epoch: 2}
		}
		return route.Route{Kind: route.Local, Epoch: 2}
	})
	c := ingress.dial()
	for range 4 {
		c.send("GET /search HTTP/1.1\r\nHost: h\r\n\r\n")
		res, body := c.answer("GET")
		if res.Header.Get("Saw-Shardway-Node") != "owner" || res.Header.Get("Saw-Shardway-Service") != "search" || res.Header.Get("Saw-Shardway-Shard") != "" {
			t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
		}
	}
	// The ingress may have outdated information.
	forwarded := owner.stream()
	forwarded.send("GET / HTTP/1.1\r\nHost: h\r\nShardway-Map: 2 2\r\nShardway-Service: chat\r\nShardway-Shard: none\r\n\r\n")
	if res, body := forwarded.answer("GET"); res.Header.Get("Shardway-Refused") != "not-owner" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// The settings of a service replace those of the node for its requests.
func TestServicesHaveTheirOwnSettings(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := startServices(t, start, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Slow") != "" {
					time.Sleep(300 * time.Millisecond)
				}
				w.Header().Set("Saw", strings.Join(r.Header.Values("X-Rule"), ","))
			}), func(o *proxy.Options) {
				set := func(value string) headerrules.Config {
					return headerrules.Config{Request: headerrules.Rules{Add: []headerrules.Field{{Name: "X-Rule", Value: value}}}}
				}
				o.Headers = set("node")
				one := keylimit.Limit{Interval: time.Hour, Burst: 1}
				o.Services = map[string]proxy.Settings{
					"chat":    {Headers: set("chat"), KeyLimit: one, Routes: []proxy.Route{{Prefix: "/chat", Headers: set("path")}}},
					"default": {KeyLimit: one, TotalTimeout: 100 * time.Millisecond},
					"search":  {FirstByteTimeout: 100 * time.Millisecond},
				}
			})
			for _, tc := range []struct {
				target, lines string
				status        int
				saw           string
			}{
				{"/chat/k", "", 200, "node,chat,path"},
				{"/chat/k", "", 429, ""},
				{"/", "X-Shard-Key: k\r\n", 200, "node"}, // another service has other tokens for the same key
				{"/", "X-Shard-Key: k\r\n", 429, ""},
				{"/", "X-Shard-Key: slow\r\nX-Slow: 1\r\n", 504, ""},
				{"/search?q=a", "", 200, "node"},
				{"/search?q=a", "", 200, "node"},
				{"/search?q=a", "X-Slow: 1\r\n", 504, ""},
				{"/chat/slow", "X-Slow: 1\r\n", 200, "node,chat,path"},
			} {
				c := front.dial()
				c.send("GET %s HTTP/1.1\r\nHost: example.com\r\n%s\r\n", tc.target, tc.lines)
				if res, body := c.answer("GET"); res.StatusCode != tc.status || tc.status == 200 && res.Header.Get("Saw") != tc.saw {
					t.Errorf("%s %q: %d %s, headers %q, want %d %q", tc.target, tc.lines, res.StatusCode, body, res.Header.Get("Saw"), tc.status, tc.saw)
				}
			}
		})
	}
}

// An event loop applies no limits and no timeouts of services, so it must not serve their requests.
func TestEventLoopObeysSettingsOfServices(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			time.Sleep(400 * time.Millisecond)
		}
		echo(w, r)
	}
	for name, settings := range map[string]proxy.Settings{
		"limit": {KeyLimit: keylimit.Limit{Interval: time.Hour, Burst: 1}}, "first byte": {FirstByteTimeout: 50 * time.Millisecond}, "total": {TotalTimeout: 50 * time.Millisecond},
	} {
		n := newNode(t, "a", webApp(t, slow))
		n.useServices(t, ranges(), local(2))
		c := n.dial()
		const request = "GET /chat/tea HTTP/1.1\r\nHost: example.com\r\n%s\r\n"
		for range 8 {
			c.send(request, "")
			if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			time.Sleep(5 * time.Millisecond) // the connection may join an event loop
		}
		n.Apply(proxy.Settings{Services: map[string]proxy.Settings{"chat": settings}})
		last := 0
		for _, lines := range []string{"", "X-Slow: 1\r\n"} {
			c.send(request, lines)
			res, _ := c.answer("GET")
			last = res.StatusCode
		}
		if last == http.StatusOK {
			t.Errorf("%s: the settings of the service have no effect", name)
		}
	}
}

// A request without a key does not wait for an app of another service.
func TestKeylessRequestsUseInstancesOfTheirService(t *testing.T) {
	apps := newInstanceApps(t)
	n := newNode(t, "a", "", apps.options, func(o *proxy.Options) {
		o.ServiceInstances = map[string]upstream.InstanceBits{"chat": upstream.InstanceBits(0).With(0).With(1), "search": upstream.InstanceBits(0).With(2)}
		o.QueueWait = time.Millisecond
	})
	n.useServices(t, ranges(), atServices(2, map[string]uint8{"chat": 0, "search": 2}))
	c := n.dial()
	for range 6 {
		c.send("GET /search HTTP/1.1\r\nHost: h\r\n\r\n")
		if res, body := c.answer("GET"); res.StatusCode != http.StatusOK || !strings.HasPrefix(body, "2 ") {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}
}

func TestHooksOfAllServicesAreProtected(t *testing.T) {
	n, _ := startServices(t, pair, webApp(t, echo), func(o *proxy.Options) { o.HookPath, o.FurtherHookPaths = "/_hooks", []string{"/_chat", "/_search"} })
	c := n.dial()
	for _, path := range []string{"/_hooks/release", "/_chat", "/_CHAT/acquire", "/%5fsearch/x", "/x/../_search"} {
		c.send("GET %s HTTP/1.1\r\nHost: a.chat.example\r\nX-Room: k\r\n\r\n", path)
		if res, body := c.answer("GET"); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// A generated key belongs to a shard of its own service.
func TestMintedKeysBelongToTheirService(t *testing.T) {
	const keys = `{"services":{"a":{"routes":["/"],"shards":8,"key":["header:x-none","mint"],"on_missing_key":"reject"},"b":{"routes":["/b"],"shards":8,"key":["header:x-none"],"on_missing_key":"cookie","cookie":{"name":"b-key"}}}}`
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.AcceptsNewKeys = func(string) bool { return true } })
	n.keys, n.keysSince = parsedKeys(t, keys), 2
	n.services = []route.Service{{Name: "a", First: 0, Shards: 8}, {Name: "b", First: 8, Shards: 8}}
	n.swap(2, 2, func(s shardmap.Shard) route.Route {
		if s == 3 || s == 9 {
			return route.Route{Kind: route.Local, Epoch: 2}
		}
		return route.Route{Kind: route.Queued, Reason: route.ReasonMoving}
	})
	c := n.dial()
	for range 3 {
		for target, shard := range map[string]string{"/": "3", "/b": "1"} {
			c.send("GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target)
			res, body := c.answer("GET")
			if res.StatusCode != http.StatusOK || res.Header.Get("Saw-Shardway-Shard") != shard {
				t.Errorf("%s: %d %s, shard %s", target, res.StatusCode, body, res.Header.Get("Saw-Shardway-Shard"))
			}
			if cookies := cookiesOf(t, res); target == "/b" && (len(cookies) != 1 || cookies[0].Name != "b-key") || target == "/" && len(cookies) != 0 {
				t.Errorf("%s: cookies %v", target, cookies)
			}
		}
	}
}

// The app names a key of the same service.
func TestNamedKeyBelongsToTheSameService(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := startServices(t, start, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Shardway-Key") != "named" {
					w.Header().Set("Shardway-Key", "named")
					w.WriteHeader(http.StatusMisdirectedRequest)
					return
				}
				echo(w, r)
			}))
			c := front.dial()
			c.send("GET /chat/tea HTTP/1.1\r\nHost: example.com\r\n\r\n")
			res, body := c.answer("GET")
			if res.Header.Get("Saw-Shardway-Service") != "chat" || res.Header.Get("Saw-Shardway-Shard") != strconv.Itoa(int(shardmap.ShardOf("named", 8))) {
				t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
			}
		})
	}
}
