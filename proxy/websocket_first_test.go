package proxy_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// firstMessageRequest is an upgrade request whose key is in the first message. lines contains
// additional header lines.
func firstMessageRequest(lines string) string {
	return "GET /collab HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: https://example.com\r\n" + lines + "\r\n"
}

// keyedBy sets the key sources of the nodes of a test.
func keyedBy(t *testing.T, sources ...string) func(*proxy.Options) {
	t.Helper()
	keys := keysOf(t, specOf(sources...))
	return func(o *proxy.Options) { o.Keys = keys }
}

// acceptedSocket opens a WebSocket whose key is in the first message. The node must accept it at once.
func (n *node) acceptedSocket(lines string) (c *client, head string) {
	n.t.Helper()
	c = n.dial()
	c.send("%s", firstMessageRequest(lines))
	head, err := readHead(c.r)
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n") || strings.Contains(head, "Shardway-") {
		n.t.Fatalf("head = %q, %v", head, err)
	}
	return c, head
}

// write sends raw bytes.
func (c *client) write(parts ...[]byte) {
	c.t.Helper()
	for _, part := range parts {
		if _, err := c.Write(part); err != nil {
			c.t.Fatal(err)
		}
	}
}

// The node accepts a WebSocket, reads the key from its first message, and gives the app the original
// upgrade request, the message, and all later messages, in order. That holds for resumable and for
// other WebSockets, at the owner and through two nodes.
func TestWebSocketIsRoutedByFirstMessage(t *testing.T) {
	apps := map[string]func() *chat{
		"resumable": plainChat,
		"plain": func() *chat {
			return &chat{answer: func(_ int, head http.Header) string {
				return "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n"
			}}
		},
	}
	for name, app := range apps {
		t.Run(name, func(t *testing.T) {
			inSockets(t, app, func(t *socketTest) {
				c, _ := t.front.acceptedSocket("Sec-WebSocket-Extensions: permessage-deflate\r\nX-Mine: yes\r\n")
				if n := len(t.app.upgradeRequests()); n != 0 {
					t.Fatalf("%d upgrade requests before the first message", n)
				}
				first := `{"room":"tea","n":1}`
				c.write(message(0x01, true, first[:5]), message(0x89, true, "ping"), message(0x00, true, first[5:9]), message(0x80, true, first[9:]), message(0x81, true, "two"))
				_ = c.SetReadDeadline(time.Now().Add(time.Minute)) // without a pong, virtual time would pass without end
				op, payload, err := readMessage(c.r)
				if err != nil || op != wsframe.OpPong || string(payload) != "ping" {
					t.Fatalf("answer to the ping = %x %q, %v", op, payload, err)
				}
				c.sendText("three")
				t.until("got", t.app.has(3))
				t.app.wantGot(first, "two", "three")
				head := t.app.upgradeRequests()[0]
				if head.Get("Shardway-Key") != "tea" || head.Get("X-Mine") != "yes" || head.Get("Origin") != "https://example.com" || head.Get("Sec-Websocket-Extensions") != "" {
					t.Errorf("the app got %v", head)
				}
				if want := fmt.Sprint(shardmap.ShardOf("tea", shards)); head.Get("Shardway-Shard") != want {
					t.Errorf("shard %s, want %s", head.Get("Shardway-Shard"), want)
				}
				_, _ = t.app.conn(0).Write(message(0x81, false, "hello"))
				if got := c.receiveText(); got != "hello" {
					t.Errorf("got %q", got)
				}
				c.write(message(0x88, true, "\x03\xe8"))
				c.wantClosed(1000)
				if got := metric(t.T, t.front, "shardway_websocket_first_messages_total", "key"); got != 1 {
					t.Errorf("%v first messages with a key", got)
				}
				_ = c.Close()
			}, keyedBy(t, "ws-json:/room"))
		})
	}
}

// A first message from which two apps could read two keys is refused, as is one that is not a valid
// message. The app sees none of them.
func TestFirstMessageIsRefused(t *testing.T) {
	long := strings.Repeat("x", 64<<10+1)
	var pings []byte
	for range 17 {
		pings = append(pings, message(0x89, true, "")...)
	}
	for name, tc := range map[string]struct {
		data   []byte
		code   int
		result string
	}{
		"no such member":     {message(0x81, true, `{"other":"tea"}`), 1008, "no-key"},
		"empty key":          {message(0x81, true, `{"room":""}`), 1008, "no-key"},
		"object":             {message(0x81, true, `{"room":{"a":1}}`), 1008, "no-key"},
		"null":               {message(0x81, true, `{"room":null}`), 1008, "no-key"},
		"binary":             {message(0x82, true, `{"room":"tea"}`), 1008, "no-key"},
		"empty":              {message(0x81, true, ""), 1008, "no-key"},
		"duplicate member":   {message(0x81, true, `{"room":"tea","room":"bob"}`), 1008, "no-key"},
		"escaped duplicate":  {message(0x81, true, `{"room":"tea","roo\u006d":"bob"}`), 1008, "no-key"},
		"two documents":      {message(0x81, true, `{"room":"tea"}{"room":"bob"}`), 1008, "no-key"},
		"not JSON":           {message(0x81, true, "room=tea"), 1008, "no-key"},
		"lone surrogate":     {message(0x81, true, `{"room":"\ud800"}`), 1008, "no-key"},
		"long key":           {message(0x81, true, `{"room":"`+long[:2049]+`"}`), 1008, "no-key"},
		"not UTF-8":          {message(0x81, true, "{\"room\":\"\xff\"}"), 1007, "invalid"},
		"too long":           {message(0x81, true, long), 1009, "too-long"},
		"too long in parts":  {append(message(0x01, true, long[:40000]), message(0x80, true, long[:40000])...), 1009, "too-long"},
		"compressed":         {message(0xc1, true, `{"room":"tea"}`), 1002, "invalid"},
		"not masked":         {message(0x81, false, `{"room":"tea"}`), 1002, "invalid"},
		"continuation":       {message(0x80, true, `{"room":"tea"}`), 1002, "invalid"},
		"message in another": {append(message(0x01, true, `{"room":"t`), message(0x81, true, `{"room":"bob"}`)...), 1002, "invalid"},
		"reserved opcode":    {message(0x83, true, "x"), 1002, "invalid"},
		"many pings":         {pings, 1008, "invalid"},
		"close":              {message(0x88, true, "\x03\xe9"), 1001, "client-gone"},
		"silence":            {nil, 1008, "timeout"},
		"half a message":     {message(0x01, true, `{"room":"tea"}`), 1008, "timeout"},
		"half a frame":       {message(0x81, true, `{"room":"tea"}`)[:9], 1008, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app := &chat{t: t}
				n := simNode(t, newSim(t), "a", app.serve, keyedBy(t, "ws-json:/room"))
				began := time.Now()
				c, _ := n.acceptedSocket("")
				c.write(tc.data)
				_ = c.SetReadDeadline(began.Add(time.Minute))
				for { // skip the pongs
					op, payload, err := readMessage(c.r)
					if err == nil && op == wsframe.OpPong {
						continue
					}
					if err != nil || op != wsframe.OpClose || len(payload) < 2 || int(payload[0])<<8|int(payload[1]) != tc.code {
						t.Errorf("closed with %x %q, %v; want %d", op, payload, err, tc.code)
					}
					break
				}
				c.closed()
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("closed after %v", took)
				}
				if got := metric(t, n, "shardway_websocket_first_messages_total", tc.result); got != 1 {
					t.Errorf("%v first messages with the result %s", got, tc.result)
				}
				if len(app.upgradeRequests()) > 0 {
					t.Error("the app was asked")
				}
				_ = c.Close()
			})
		})
	}
}

// A first message in which two parsers could find two keys is refused although a later source has a key.
// Only a message without a key leads to the later source.
func TestAmbiguousFirstMessageHasNoKeyOfLaterSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := &chat{t: t}
		n := simNode(t, newSim(t), "a", app.serve, keyedBy(t, "ws-json:/room", "header:X-Later"))
		for _, document := range []string{
			`{"room":"tea","room":"bob"}`, `{"room":"tea","roo\u006d":"bob"}`, `{"room":"tea"}{"room":"bob"}`, `{"Room":"tea"}`,
			`{"room":"\ud800"}`, `{"room":1e3}`, "room=tea", "", `{"room":"` + strings.Repeat("x", 2049) + `"}`,
		} {
			c, _ := n.acceptedSocket("X-Later: later\r\n")
			c.sendText(document)
			c.wantClosed(1008)
			_ = c.Close()
		}
		binary, _ := n.acceptedSocket("X-Later: later\r\n")
		binary.write(message(0x82, true, `{"room":"tea"}`))
		binary.wantClosed(1008)
		_ = binary.Close()
		if heads := app.upgradeRequests(); len(heads) > 0 {
			t.Errorf("the app was asked: %v", heads)
		}
		c, _ := n.acceptedSocket("X-Later: later\r\n")
		c.sendText(`{"other":"tea"}`)
		until(t, "got", app.has(1))
		if key := app.upgradeRequests()[0].Get("Shardway-Key"); key != "later" {
			t.Errorf("key %q, want that of the later source", key)
		}
		_ = c.Close()
	})
}

// An upgrade request that the node cannot accept gets an error response.
func TestUnacceptableUpgradeIsRejected(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), keyedBy(t, "ws-first", "ws-protocol:chat", "ws-protocol:json"))
	good := firstMessageRequest("")
	for name, tc := range map[string]struct {
		request string
		status  int
	}{
		"version":         {strings.Replace(good, "Version: 13", "Version: 8", 1), 426},
		"no version":      {strings.Replace(good, "Sec-WebSocket-Version: 13\r\n", "", 1), 426},
		"two versions":    {strings.Replace(good, "Origin", "Sec-WebSocket-Version: 8\r\nOrigin", 1), 426},
		"short key":       {strings.Replace(good, "AAAAAAAAAAAAAAAAAAAAAA==", "AAAA", 1), 400},
		"no key":          {strings.Replace(good, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", "", 1), 400},
		"two keys":        {strings.Replace(good, "Origin", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin", 1), 400},
		"subprotocol":     {firstMessageRequest("Sec-WebSocket-Protocol: other\r\n"), 400},
		"not a WebSocket": {strings.Replace(good, "Upgrade: websocket", "Upgrade: other", 1), 400},
		"no upgrade":      {strings.Replace(good, "Connection: Upgrade\r\n", "", 1), 400},
	} {
		c := n.dial()
		c.send("%s", tc.request)
		res, body := c.answer("GET")
		if res.StatusCode != tc.status || tc.status == 426 && res.Header.Get("Sec-Websocket-Version") != "13" {
			t.Errorf("%s: %d %v %s, want %d", name, res.StatusCode, res.Header, body, tc.status)
		}
	}
	for offered, want := range map[string]string{"json": "json", "other, json ,chat": "chat", "other\r\nSec-WebSocket-Protocol: json": "json"} {
		_, head := n.acceptedSocket("Sec-WebSocket-Protocol: " + offered + "\r\n")
		if !strings.Contains(head, "Sec-WebSocket-Protocol: "+want+"\r\n") {
			t.Errorf("%q: %q", offered, head)
		}
	}
}

// An app that does not accept the WebSocket, or in another way than the node, closes it. The close code
// tells the client whether it should try again.
func TestAppRefusesAcceptedWebSocket(t *testing.T) {
	const accept = "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n"
	for name, tc := range map[string]struct {
		answer string
		code   int
		reason string
	}{
		"forbidden":    {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 1008, "the app did not take the socket"},
		"not found":    {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 1008, "the app did not take the socket"},
		"fails":        {"HTTP/1.1 500 Failed\r\nContent-Length: 0\r\n\r\n", 1013, "the app did not take the socket"},
		"own code":     {"HTTP/1.1 403 Forbidden\r\nShardway-WebSocket-Close: 4001\r\nContent-Length: 0\r\n\r\n", 4001, "the app did not take the socket"},
		"invalid code": {"HTTP/1.1 403 Forbidden\r\nShardway-WebSocket-Close: 1005\r\nContent-Length: 0\r\n\r\n", 1008, ""},
		"no WebSocket": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 1008, ""},
		"protocol":     {accept + "Sec-WebSocket-Protocol: json\r\nShardway-WebSocket: keep\r\n", 1011, "the app selected another subprotocol"},
		"no protocol":  {accept, 1011, "the app selected another subprotocol"},
		"extension":    {accept + "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n", 1011, "the app selected an extension"},
		"accept":       {"Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n", 1011, "the app did not accept a WebSocket"},
	} {
		t.Run(name, func(t *testing.T) {
			app := func() *chat { return &chat{answer: func(int, http.Header) string { return tc.answer }} }
			inSockets(t, app, func(t *socketTest) {
				c, _ := t.front.acceptedSocket("Sec-WebSocket-Protocol: chat, json\r\n")
				c.sendText("tea")
				c.wantClosedFor(tc.code, tc.reason)
				t.app.wantGot()
				_ = c.Close()
			}, keyedBy(t, "ws-first", "ws-protocol:chat"))
		})
	}
}

// A flood of WebSockets that send no message from one address does not evict those of other addresses.
// It does not delay them either.
func TestFloodOfSilentWebSocketsEvictsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := &chat{t: t}
		n := simNode(t, newSim(t), "a", app.serve, keyedBy(t, "ws-first"), func(o *proxy.Options) {
			o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
			o.MaxFirstMessages = 8
		})
		slow, _ := n.acceptedSocket("X-Forwarded-For: 192.0.2.1\r\n")
		flood := make([]*client, 40)
		for i := range flood {
			flood[i], _ = n.acceptedSocket(fmt.Sprintf("X-Forwarded-For: 2001:db8::%x\r\n", i+1)) // one /64
		}
		flood[0].wantClosedFor(1013, "queue-full: too many WebSockets wait for their first message")
		if got := metric(t, n, "shardway_websocket_first_messages_waiting"); got != 8 {
			t.Errorf("%v wait", got)
		}
		slow.sendText("tea")
		for range 1000 {
			if time.Sleep(time.Millisecond); app.has(1)() {
				break
			}
		}
		app.wantGot("tea")
		if got := metric(t, n, "shardway_websocket_first_messages_total", "evicted"); got != 33 {
			t.Errorf("%v evicted", got)
		}
		time.Sleep(6 * time.Second)
		if got := metric(t, n, "shardway_websocket_first_messages_waiting"); got != 0 {
			t.Errorf("%v still wait", got)
		}
		_ = slow.Close()
		for _, c := range flood {
			_ = c.Close()
		}
	})
}

// A problem of the cluster after the first message becomes a close code.
func TestProblemAfterFirstMessageClosesWebSocket(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		t.front.Quarantine(quarantineOf(shards, "", "tea"))
		c, _ := t.front.acceptedSocket("")
		c.sendText("tea")
		c.wantClosed(1013)
		t.front.Quarantine(nil)
		t.propose()
		late, _ := t.front.acceptedSocket("")
		late.sendText("tea")
		late.wantClosed(1013)
		queued, _ := t.front.acceptedSocket("")
		queued.sendText("tea")
		time.Sleep(time.Second)
		queued.sendText("second")
		t.own(t.b)
		t.until("got", t.app.has(2))
		t.app.wantGot("tea", "second")
		for _, c := range []*client{c, late, queued} {
			_ = c.Close()
		}
	}, keyedBy(t, "ws-first"))
}

// Go libraries accept a WebSocket from a list of protocols. The app would then read the key from the first
// message, and the node from a later source.
func TestUpgradeToSeveralProtocolsIsRejected(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), keyedBy(t, "header:X-Earlier", "ws-json:/room", "header:X-Later"))
	for _, upgrade := range []string{"other, websocket", "WebSocket,other", "other\r\nUpgrade: websocket", "websocket\r\nUpgrade: other", "websocket/13"} {
		c := n.dial()
		c.send("%s", strings.Replace(firstMessageRequest("X-Later: alice\r\n"), "websocket", upgrade, 1))
		res, body := c.answer("GET")
		wantStatus(t, res, body, 400, "bad-request")
		_ = c.Close()
	}
	for lines, key := range map[string]string{"X-Earlier: bob\r\nUpgrade: other\r\n": "bob", "X-Later: alice\r\n": "alice"} {
		c := n.dial()
		c.send("%s", strings.Replace(firstMessageRequest(lines), "websocket", "other", 1))
		if res, body := c.answer("GET"); res.Header.Get("Saw-Shardway-Key") != key {
			t.Errorf("%q: %d %s %v", lines, res.StatusCode, body, res.Header)
		}
		_ = c.Close()
	}
}

// An earlier source with a value decides: the app is asked before the client has a response. Other
// requests of the same route use the later sources.
func TestEarlierSourcePrecedesFirstMessage(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket() // has X-Shard-Key
		c.sendText("one")
		t.until("got", t.app.has(1))
		if key := t.app.upgradeRequests()[0].Get("Shardway-Key"); key != "k" {
			t.Errorf("key %q", key)
		}
		later, _ := t.front.acceptedSocket("X-Later: bob\r\n")
		later.sendText("") // is no key
		t.until("got", t.app.has(2))
		if key := t.app.upgradeRequests()[1].Get("Shardway-Key"); key != "bob" {
			t.Errorf("key %q", key)
		}
		_, _ = c.Close(), later.Close()
	}, keyedBy(t, "header:X-Shard-Key", "ws-first", "header:X-Later"))
}

// A resumed WebSocket keeps the key of its first message after a change of the key configuration, as
// long as the source is the same.
func TestResumedWebSocketKeepsKeyOfFirstMessage(t *testing.T) {
	for config, code := range map[string]int{
		`{"key":["ws-first","header:x-tenant"],"on_missing_key":"reject"}`: 0,
		`{"key":["ws-json:/room"],"on_missing_key":"reject"}`:              1012,
	} {
		inSockets(t, plainChat, func(t *socketTest) {
			c, _ := t.front.acceptedSocket("")
			c.sendText("tea")
			t.until("got", t.app.has(1))
			t.propose()
			t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
			for _, n := range t.nodes {
				n.rekey(parsedKeys(t.T, config), t.epoch-1, t.epoch-1)
			}
			time.Sleep(time.Second) // the WebSocket looks for its key again
			t.own(t.b)
			if code != 0 {
				c.wantClosed(code)
			} else {
				c.sendText("two")
				t.until("got", t.app.has(2))
				t.app.wantGot("tea", "two")
			}
			_ = c.Close()
		}, keyedBy(t, "ws-first"))
	}
}
