//go:build linux

package load_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// startRawServer listens and responds to the n-th request of each connection with the n-th text, in
// which %s is the App-Id of the request. After the last text it closes the connection.
func startRawServer(t *testing.T, responses ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn, responses)
		}
	}()
	return ln.Addr().String()
}

func serve(conn net.Conn, responses []string) {
	defer func() { _ = conn.Close() }()
	br := bufio.NewReader(conn)
	for _, response := range responses {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := fmt.Fprint(conn, strings.ReplaceAll(response, "%s", req.Header.Get("App-Id"))); err != nil {
			return
		}
	}
}

const okResponse = "HTTP/1.1 200 OK\r\nApp-Id: %s\r\nApp-Name: a\r\nApp-Count: 3\r\nContent-Length: 2\r\n\r\nok"

// unusedAddr returns an address without a listener.
func unusedAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func newClient(t *testing.T, targets ...string) *load.Client {
	t.Helper()
	c := load.NewClient(targets, nil)
	t.Cleanup(c.Close)
	return c
}

func TestResponseIsRead(t *testing.T) {
	c := newClient(t, startRawServer(t, "HTTP/1.1 103 Early Hints\r\n\r\n"+okResponse, okResponse))
	for range 2 {
		resp := c.Do(t.Context(), load.Request{ID: "x", Key: "k", Method: "POST", Body: []byte("b")})
		if !resp.OK() || resp.EchoID != "x" || resp.App != "a" || resp.Count != 3 || resp.Bytes != 2 || resp.Extra != 0 || len(resp.Attempts) != 1 {
			t.Errorf("response = %+v", resp)
		}
		if resp.SentAt() == 0 || resp.DoneAt() < resp.SentAt() {
			t.Errorf("sent %d, done %d", resp.SentAt(), resp.DoneAt())
		}
	}
}

func TestErrorResponseIsRecorded(t *testing.T) {
	c := newClient(t, startRawServer(t, "HTTP/1.1 503 Busy\r\nShardway-Error: no-leader\r\nContent-Length: 3\r\n\r\nwhy"))
	resp := c.Do(t.Context(), load.Request{ID: "x"})
	if resp.OK() || resp.Status != 503 || resp.Error != "no-leader" || resp.Detail != "why" || len(resp.Attempts) != 1 {
		t.Errorf("response = %+v", resp)
	}
}

// None of these results is a valid response. On a new connection, none of them is
// retried.
func TestMissingAndBrokenResponsesAreRecorded(t *testing.T) {
	for _, c := range []struct {
		name, response string
		want           func(resp history.Response) bool
	}{
		{"closed without a response", "", func(resp history.Response) bool { return resp.Status == 0 }},
		{"cut in the head", "HTTP/1.1 200 OK\r\nConte", func(resp history.Response) bool { return resp.Status == 0 }},
		{"cut in the body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", func(resp history.Response) bool { return resp.Truncated }},
		{"cut between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", func(resp history.Response) bool { return resp.Truncated }},
		{"no framing", "HTTP/1.1 200 OK\r\n\r\nok", func(resp history.Response) bool { return resp.Truncated }},
		{"two responses", okResponse + okResponse, func(resp history.Response) bool { return resp.OK() && resp.Extra > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := startRawServer(t, c.response)
			resp := newClient(t, target, target).Do(t.Context(), load.Request{ID: "x"})
			if !c.want(resp) || len(resp.Attempts) != 1 {
				t.Errorf("response = %+v", resp)
			}
		})
	}
}

// The target sends bytes on an idle connection.
func TestUnsolicitedBytesAreCounted(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	speak, spoke := make(chan struct{}), make(chan struct{})
	go func() {
		first, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = first.Close() }()
		go serve(first, []string{okResponse, okResponse})
		<-speak
		_, _ = first.Write([]byte(okResponse))
		close(spoke)
		second, err := ln.Accept()
		if err != nil {
			return
		}
		serve(second, []string{okResponse})
	}()
	c := newClient(t, ln.Addr().String())
	if resp := c.Do(t.Context(), load.Request{ID: "x"}); !resp.OK() || c.Unsolicited() != 0 {
		t.Fatalf("response = %+v, unsolicited %d", resp, c.Unsolicited())
	}
	close(speak)
	<-spoke
	if resp := c.Do(t.Context(), load.Request{ID: "y"}); !resp.OK() || resp.EchoID != "y" {
		t.Errorf("response = %+v", resp)
	}
	if c.Unsolicited() == 0 {
		t.Error("the second response was not recorded")
	}
}

// These are the two cases in which a request certainly has no response at one target. The
// client tries the next one, and records both attempts.
func TestClientTriesNextTarget(t *testing.T) {
	good := startRawServer(t, okResponse, okResponse, okResponse)
	t.Run("no listener", func(t *testing.T) {
		c := newClient(t, unusedAddr(t), good)
		tries := 0
		for range 2 {
			resp := c.Do(t.Context(), load.Request{ID: "x"})
			if !resp.OK() {
				t.Errorf("response = %+v", resp)
			}
			tries += len(resp.Attempts)
		}
		if tries != 3 {
			t.Errorf("%d attempts for two requests, want 3", tries)
		}
	})
	t.Run("idle connection closed at the request", func(t *testing.T) {
		once := startRawServer(t, okResponse, "")
		c := newClient(t, once)
		if resp := c.Do(t.Context(), load.Request{ID: "x"}); !resp.OK() {
			t.Fatalf("first response = %+v", resp)
		}
		c.SetTargets([]string{once, good})
		var tries []history.Attempt
		for range 2 {
			resp := c.Do(t.Context(), load.Request{ID: "y", Method: "POST"})
			if !resp.OK() {
				t.Errorf("response = %+v", resp)
			}
			tries = append(tries, resp.Attempts...)
		}
		if len(tries) != 3 {
			t.Errorf("attempts = %+v, want 3", tries)
		}
	})
}

// A listener closes during a dial: the connection was established but not accepted, and
// the kernel reset it. Such a request, which was never sent, once counted as lost.
func TestResetDuringDialCountsAsRefused(t *testing.T) {
	good := startRawServer(t, okResponse)
	c := load.NewClient([]string{good, "closing:1"}, func(ctx context.Context, addr string) (net.Conn, error) {
		if addr != good {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNRESET)}
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
	t.Cleanup(c.Close)
	resp := c.Do(t.Context(), load.Request{ID: "x", Method: "POST"})
	if !resp.OK() || len(resp.Attempts) != 2 || !resp.Attempts[0].Refused {
		t.Errorf("response = %+v, want a response to the second attempt", resp)
	}
}

// An idle connection closes during a request, at a target that may have died. The request
// may have run, so it is not sent again.
func TestNoRetrySendsUnsafeRequestOnce(t *testing.T) {
	for method, want := range map[string]int{"POST": 1, "GET": 2} {
		once := startRawServer(t, okResponse, "")
		c := newClient(t, once)
		if resp := c.Do(t.Context(), load.Request{ID: "x"}); !resp.OK() {
			t.Fatalf("first response = %+v", resp)
		}
		c.SetNoRetry(once)
		resp := c.Do(t.Context(), load.Request{ID: "y", Method: method, Timeout: time.Second})
		if len(resp.Attempts) != want || !resp.Attempts[0].Reused {
			t.Errorf("%s: attempts = %+v, want %d", method, resp.Attempts, want)
		}
		c.SetNoRetry()
		if resp := c.Do(t.Context(), load.Request{ID: "z", Method: "POST"}); !resp.OK() {
			t.Errorf("response = %+v", resp)
		}
	}
}

// A target dies and restarts before the client detects the end of its connection. A
// request that may have run there must not be sent again.
func TestNoRetryAppliesToEarlierRequests(t *testing.T) {
	for method, want := range map[string]int{"POST": 1, "GET": 2} {
		t.Run(method, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			target := ln.Addr().String()
			c := newClient(t, target)
			go func() {
				for first := true; ; first = false {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					if !first {
						go serve(conn, []string{okResponse})
						continue
					}
					br := bufio.NewReader(conn)
					_, _ = http.ReadRequest(br)
					_, _ = fmt.Fprint(conn, strings.ReplaceAll(okResponse, "%s", "x"))
					_, _ = http.ReadRequest(br)
					c.SetNoRetry(target)
					c.SetNoRetry()
					_ = conn.Close()
				}
			}()
			if resp := c.Do(t.Context(), load.Request{ID: "x"}); !resp.OK() {
				t.Fatalf("first response = %+v", resp)
			}
			resp := c.Do(t.Context(), load.Request{ID: "y", Method: method, Timeout: time.Second})
			if len(resp.Attempts) != want || !resp.Attempts[0].Reused {
				t.Errorf("attempts = %+v, want %d", resp.Attempts, want)
			}
			if resp := c.Do(t.Context(), load.Request{ID: "z", Method: "POST"}); !resp.OK() {
				t.Errorf("response after that = %+v", resp)
			}
		})
	}
}

func TestClientRetriesUntilTimeout(t *testing.T) {
	c := newClient(t, unusedAddr(t))
	resp := c.Do(t.Context(), load.Request{ID: "x", Timeout: 100 * time.Millisecond})
	if resp.Status != 0 || len(resp.Attempts) < 2 || resp.Attempts[0].Err == "" {
		t.Errorf("response = %+v", resp)
	}
	if resp := c.DoAt(t.Context(), unusedAddr(t), load.Request{ID: "x"}); resp.Status != 0 || len(resp.Attempts) != 1 {
		t.Errorf("DoAt = %+v, want one attempt", resp)
	}
}

func TestUnresponsiveTargetTimesOut(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer srv.Close()
	defer close(hang)
	resp := newClient(t, strings.TrimPrefix(srv.URL, "http://")).Do(t.Context(), load.Request{ID: "x", Timeout: 50 * time.Millisecond})
	if resp.Status != 0 || len(resp.Attempts) != 1 {
		t.Errorf("response = %+v", resp)
	}
}

func TestGeneratorKeepsRateAndAllResponses(t *testing.T) {
	var posts atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			posts.Add(1)
		}
		w.Header().Set("App-Id", req.Header.Get("App-Id"))
		_, _ = w.Write([]byte("ok"))
	}))
	defer srv.Close()
	generator := load.Start(t.Context(), load.Options{
		Client: newClient(t, strings.TrimPrefix(srv.URL, "http://")), Rate: 500, Keys: load.Keys(7), Prefix: "g",
		ModifyRequest: func(n int, req *load.Request) { req.Header = map[string]string{"N": strconv.Itoa(n)} },
	})
	for tick := time.NewTicker(time.Millisecond); generator.Started() < 200; {
		<-tick.C
	}
	responses := generator.Stop()
	if len(responses) < 200 || len(responses) != generator.Started() || generator.Pending() != 0 {
		t.Fatalf("%d responses to %d requests, %d pending", len(responses), generator.Started(), generator.Pending())
	}
	ids, keys := make(map[string]bool), make(map[string]bool)
	for _, resp := range responses {
		if !resp.OK() || resp.EchoID != resp.ID || ids[resp.ID] {
			t.Errorf("response = %+v", resp)
		}
		ids[resp.ID] = true
		keys[resp.Method+resp.Key] = true
	}
	if len(keys) != 14 || int(posts.Load()) != len(responses)/2 {
		t.Errorf("%d methods and keys, %d posts of %d", len(keys), posts.Load(), len(responses))
	}
}

func TestKeysInCoversWantedShards(t *testing.T) {
	keys := load.KeysIn(64, 2, func(s int) bool { return s%3 == 0 })
	count := make(map[int]int)
	for _, key := range keys {
		count[load.ShardOf(key, 64)]++
	}
	if len(count) != 22 {
		t.Errorf("%d shards covered, want 22", len(count))
	}
	for s, n := range count {
		if s%3 != 0 || n != 2 {
			t.Errorf("shard %d has %d keys", s, n)
		}
	}
}
