//go:build linux

package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// throughIngress is a request in flight at a node that is only its ingress.
type throughIngress struct {
	*stream
	what string
	rest string // the unsent rest of its body
	want string // the end of the response
}

// TestStoppingIngressFinishesItsRequests stops a node through which 20 clients have event
// streams, responses and uploads of keys of another owner. All of them finish, although
// they end only after the node accepts no new requests.
func TestStoppingIngressFinishesItsRequests(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := start(t, 3, "--shutdown-timeout", "2m")
	node := c.Follower(t)
	owner := c.Others(node)[0]
	keys := c.AwaitServing(t).Keys(owner.ID, 1)
	var under []*throughIngress
	begin := func(key, what, request, rest, want string) {
		id := what + " " + key
		c.ExpectRequest(id)
		conn, err := net.Dial("tcp", node.Addr)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, request, key, id)
		must(t, err)
		under = append(under, &throughIngress{&stream{conn, bufio.NewReader(conn)}, what, rest, want})
	}
	const lines = "Host: h\r\nX-Shard-Key: %s\r\nApp-Id: %s\r\n"
	for i := range 20 {
		key := keys[i%len(keys)]
		switch i % 4 {
		case 0:
			begin(key, "POST events", "POST / HTTP/1.1\r\n"+lines+"Content-Length: 0\r\nApp-Events: 5ms\r\nApp-Until: gate\r\n\r\n", "", "data: end\n\n")
		case 1:
			begin(key, "GET events", "GET / HTTP/1.1\r\n"+lines+"App-Events: 5ms\r\nApp-Until: gate\r\n\r\n", "", "data: end\n\n")
		case 2:
			begin(key, "response", "POST / HTTP/1.1\r\n"+lines+"Content-Length: 0\r\nApp-Hang: gate\r\n\r\n", "", "}")
		case 3:
			begin(key, "upload", "POST / HTTP/1.1\r\n"+lines+"Content-Length: 200000\r\n\r\n"+strings.Repeat("x", 100000), strings.Repeat("x", 100000), "}")
		}
	}
	for _, u := range under {
		if strings.HasSuffix(u.what, "events") {
			_, err := u.r.Peek(1)
			must(t, err)
		}
	}
	owner.App.AwaitHanging(t, "gate", 5)
	node.Terminate(t)
	cluster.Await(t, "the node takes no connection", func() error {
		conn, err := net.Dial("tcp", node.Addr)
		if err == nil {
			_ = conn.Close()
			return errors.New("it took one")
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		return nil
	})
	owner.App.Release(t, "gate")
	for _, u := range under {
		_, err := io.WriteString(u, u.rest)
		must(t, err)
		resp, err := http.ReadResponse(u.r, nil)
		if err != nil {
			t.Errorf("%s: %v", u.what, err)
			continue
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || err != nil || !strings.HasSuffix(strings.TrimRight(string(b), " "), u.want) {
			t.Errorf("%s: %s, %q, %v; want all of it", u.what, resp.Status, tail(b), err)
		}
		if !strings.HasSuffix(u.what, "events") && !resp.Close {
			t.Errorf("%s: the response does not announce that the connection closes", u.what)
		}
		if _, err := u.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection ends with %v, want EOF", u.what, err)
		}
	}
	node.AwaitExit(t, 0)
	c.AwaitServing(t)
}

// TestStoppingNodeDoesNotWaitForLongPolls has clients that wait in GET at the app of the
// node and at the app of another owner. The node exits long before shutdown-timeout, and
// no client gets an error.
func TestStoppingNodeDoesNotWaitForLongPolls(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3, "--shutdown-timeout", "5m", "--drain-timeout", "1s")
	node := c.Follower(t)
	other := c.Others(node)[0]
	shardMap := c.AwaitServing(t)
	var polls []*stream
	for _, owner := range []*cluster.Node{node, other} {
		key := shardMap.Keys(owner.ID, 1)[0]
		id := "poll " + key
		c.ExpectRequest(id)
		conn, err := net.Dial("tcp", node.Addr)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		p := &stream{conn, bufio.NewReader(conn)}
		// A node closes a connection under a long poll only if it has carried a response.
		_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nApp-Id: first %s\r\n\r\n", key, id)
		must(t, err)
		resp, err := http.ReadResponse(p.r, nil) //nolint:bodyclose // read to its end
		must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		must(t, err)
		_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nApp-Id: %s\r\nApp-Hang: gate\r\n\r\n", key, id)
		must(t, err)
		owner.App.AwaitHanging(t, "gate", 1)
		polls = append(polls, p)
	}
	node.Terminate(t)
	for _, p := range polls {
		if b, err := io.ReadAll(p.r); len(b) > 0 || err != nil {
			t.Errorf("a long poll ended with %q, %v; want a connection that is closed without a response", tail(b), err)
		}
	}
	node.AwaitExit(t, 0)
	c.AwaitServing(t)
}

// TestLongPollsMoveWithTheirShard drains a node while clients wait in GET for its keys,
// through the node itself and through another one. Each poll gets the response of the
// next owner.
func TestLongPollsMoveWithTheirShard(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3, "--drain-timeout", "1s")
	node := c.Follower(t)
	keys := c.AwaitServing(t).Keys(node.ID, 1)
	hang := map[string]string{"App-Hang": "gate"}
	var polls []*cluster.AsyncRequest
	const each = 10
	for i := range each {
		polls = append(polls,
			c.SendAsync(t, node, load.Request{Key: keys[i%len(keys)], Method: "GET", Header: hang}),
			c.SendAsync(t, c.Others(node)[0], load.Request{Key: keys[i%len(keys)], Method: "GET", Header: hang}))
	}
	node.App.AwaitHanging(t, "gate", 2*each)
	if out, code := shardway(t, "drain", node.ID, "--wait", "--admin", node.Admin); code != 0 {
		t.Fatalf("drain: exit %d, %s", code, out)
	}
	for _, other := range c.Others(node) {
		other.App.Release(t, "gate")
	}
	for i, request := range polls {
		if resp := request.Response(t); !resp.OK() {
			t.Errorf("poll %d: %d %s, want the response of the next owner", i, resp.Status, resp.Error)
		}
	}
	if moved := c.Sum(t, []*cluster.Node{node}, "shardway_retries_total", "reason", "moved"); moved < 2*each {
		t.Errorf("%v polls are counted as sent to the next owner, want %d", moved, 2*each)
	}
}
