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

// raw listens and responds to the n-th request of each connection with the n-th text, in
// which %s is the App-Id of the request. After the last text it closes the connection.
func raw(t *testing.T, answers ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c, answers)
		}
	}()
	return ln.Addr().String()
}

func serve(c net.Conn, answers []string) {
	defer func() { _ = c.Close() }()
	br := bufio.NewReader(c)
	for _, answer := range answers {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := fmt.Fprint(c, strings.ReplaceAll(answer, "%s", r.Header.Get("App-Id"))); err != nil {
			return
		}
	}
}

const fine = "HTTP/1.1 200 OK\r\nApp-Id: %s\r\nApp-Name: a\r\nApp-Count: 3\r\nContent-Length: 2\r\n\r\nok"

// refused returns an address without a listener.
func refused(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func client(t *testing.T, targets ...string) *load.Client {
	t.Helper()
	c := load.NewClient(targets, nil)
	t.Cleanup(c.Close)
	return c
}

func TestResponseIsRead(t *testing.T) {
	c := client(t, raw(t, "HTTP/1.1 103 Early Hints\r\n\r\n"+fine, fine))
	for range 2 {
		a := c.Do(t.Context(), load.Request{ID: "x", Key: "k", Method: "POST", Body: []byte("b")})
		if !a.OK() || a.EchoID != "x" || a.App != "a" || a.Count != 3 || a.Bytes != 2 || a.Extra != 0 || len(a.Attempts) != 1 {
			t.Errorf("answer = %+v", a)
		}
		if a.Sent() == 0 || a.Done() < a.Sent() {
			t.Errorf("sent %d, done %d", a.Sent(), a.Done())
		}
	}
}

func TestErrorResponseIsRecorded(t *testing.T) {
	c := client(t, raw(t, "HTTP/1.1 503 Busy\r\nShardway-Error: no-leader\r\nContent-Length: 3\r\n\r\nwhy"))
	a := c.Do(t.Context(), load.Request{ID: "x"})
	if a.OK() || a.Status != 503 || a.Error != "no-leader" || a.Detail != "why" || len(a.Attempts) != 1 {
		t.Errorf("answer = %+v", a)
	}
}

// None of these results is a valid response. On a new connection, none of them is
// retried.
func TestMissingAndBrokenResponsesAreRecorded(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         func(a history.Response) bool
	}{
		{"closed without an answer", "", func(a history.Response) bool { return a.Status == 0 }},
		{"cut in the head", "HTTP/1.1 200 OK\r\nConte", func(a history.Response) bool { return a.Status == 0 }},
		{"cut in the body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", func(a history.Response) bool { return a.Truncated }},
		{"cut between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", func(a history.Response) bool { return a.Truncated }},
		{"no framing", "HTTP/1.1 200 OK\r\n\r\nok", func(a history.Response) bool { return a.Truncated }},
		{"two answers", fine + fine, func(a history.Response) bool { return a.OK() && a.Extra > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := raw(t, c.answer)
			a := client(t, target, target).Do(t.Context(), load.Request{ID: "x"})
			if !c.want(a) || len(a.Attempts) != 1 {
				t.Errorf("answer = %+v", a)
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
		go serve(first, []string{fine, fine})
		<-speak
		_, _ = first.Write([]byte(fine))
		close(spoke)
		second, err := ln.Accept()
		if err != nil {
			return
		}
		serve(second, []string{fine})
	}()
	c := client(t, ln.Addr().String())
	if a := c.Do(t.Context(), load.Request{ID: "x"}); !a.OK() || c.Unsolicited() != 0 {
		t.Fatalf("answer = %+v, unasked %d", a, c.Unsolicited())
	}
	close(speak)
	<-spoke
	if a := c.Do(t.Context(), load.Request{ID: "y"}); !a.OK() || a.EchoID != "y" {
		t.Errorf("answer = %+v", a)
	}
	if c.Unsolicited() == 0 {
		t.Error("the second answer was not seen")
	}
}

// These are the two cases in which a request certainly has no response at one target. The
// client tries the next one, and records both attempts.
func TestClientTriesNextTarget(t *testing.T) {
	good := raw(t, fine, fine, fine)
	t.Run("nobody listens", func(t *testing.T) {
		c := client(t, refused(t), good)
		tries := 0
		for range 2 {
			a := c.Do(t.Context(), load.Request{ID: "x"})
			if !a.OK() {
				t.Errorf("answer = %+v", a)
			}
			tries += len(a.Attempts)
		}
		if tries != 3 {
			t.Errorf("%d attempts for two requests, want 3", tries)
		}
	})
	t.Run("idle connection closed at the request", func(t *testing.T) {
		once := raw(t, fine, "")
		c := client(t, once)
		if a := c.Do(t.Context(), load.Request{ID: "x"}); !a.OK() {
			t.Fatalf("first answer = %+v", a)
		}
		c.SetTargets([]string{once, good})
		var tries []history.Attempt
		for range 2 {
			a := c.Do(t.Context(), load.Request{ID: "y", Method: "POST"})
			if !a.OK() {
				t.Errorf("answer = %+v", a)
			}
			tries = append(tries, a.Attempts...)
		}
		if len(tries) != 3 {
			t.Errorf("attempts = %+v, want 3", tries)
		}
	})
}

// A listener closes during a dial: the connection was established but not accepted, and
// the kernel reset it. Such a request, which was never sent, once counted as lost.
func TestResetDuringDialCountsAsRefused(t *testing.T) {
	good := raw(t, fine)
	c := load.NewClient([]string{good, "closing:1"}, func(ctx context.Context, addr string) (net.Conn, error) {
		if addr != good {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNRESET)}
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
	t.Cleanup(c.Close)
	a := c.Do(t.Context(), load.Request{ID: "x", Method: "POST"})
	if !a.OK() || len(a.Attempts) != 2 || !a.Attempts[0].Refused {
		t.Errorf("answer = %+v, want the second attempt to be answered", a)
	}
}

// An idle connection closes during a request, at a target that may have died. The request
// may have run, so it is not sent again.
func TestNoRetrySendsUnsafeRequestOnce(t *testing.T) {
	for method, want := range map[string]int{"POST": 1, "GET": 2} {
		once := raw(t, fine, "")
		c := client(t, once)
		if a := c.Do(t.Context(), load.Request{ID: "x"}); !a.OK() {
			t.Fatalf("first answer = %+v", a)
		}
		c.SetNoRetry(once)
		a := c.Do(t.Context(), load.Request{ID: "y", Method: method, Timeout: time.Second})
		if len(a.Attempts) != want || !a.Attempts[0].Reused {
			t.Errorf("%s: attempts = %+v, want %d", method, a.Attempts, want)
		}
		c.SetNoRetry()
		if a := c.Do(t.Context(), load.Request{ID: "z", Method: "POST"}); !a.OK() {
			t.Errorf("answer = %+v", a)
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
			c := client(t, target)
			go func() {
				for first := true; ; first = false {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					if !first {
						go serve(conn, []string{fine})
						continue
					}
					br := bufio.NewReader(conn)
					_, _ = http.ReadRequest(br)
					_, _ = fmt.Fprint(conn, strings.ReplaceAll(fine, "%s", "x"))
					_, _ = http.ReadRequest(br)
					c.SetNoRetry(target)
					c.SetNoRetry()
					_ = conn.Close()
				}
			}()
			if a := c.Do(t.Context(), load.Request{ID: "x"}); !a.OK() {
				t.Fatalf("first answer = %+v", a)
			}
			a := c.Do(t.Context(), load.Request{ID: "y", Method: method, Timeout: time.Second})
			if len(a.Attempts) != want || !a.Attempts[0].Reused {
				t.Errorf("attempts = %+v, want %d", a.Attempts, want)
			}
			if a := c.Do(t.Context(), load.Request{ID: "z", Method: "POST"}); !a.OK() {
				t.Errorf("answer after that = %+v", a)
			}
		})
	}
}

func TestClientRetriesUntilTimeout(t *testing.T) {
	c := client(t, refused(t))
	a := c.Do(t.Context(), load.Request{ID: "x", Timeout: 100 * time.Millisecond})
	if a.Status != 0 || len(a.Attempts) < 2 || a.Attempts[0].Err == "" {
		t.Errorf("answer = %+v", a)
	}
	if a := c.DoAt(t.Context(), refused(t), load.Request{ID: "x"}); a.Status != 0 || len(a.Attempts) != 1 {
		t.Errorf("DoAt = %+v, want one attempt", a)
	}
}

func TestUnresponsiveTargetTimesOut(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer srv.Close()
	defer close(hang)
	a := client(t, strings.TrimPrefix(srv.URL, "http://")).Do(t.Context(), load.Request{ID: "x", Timeout: 50 * time.Millisecond})
	if a.Status != 0 || len(a.Attempts) != 1 {
		t.Errorf("answer = %+v", a)
	}
}

func TestGeneratorKeepsRateAndAllResponses(t *testing.T) {
	var posts atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
		w.Header().Set("App-Id", r.Header.Get("App-Id"))
		_, _ = w.Write([]byte("ok"))
	}))
	defer srv.Close()
	g := load.Start(t.Context(), load.Options{
		Client: client(t, strings.TrimPrefix(srv.URL, "http://")), Rate: 500, Keys: load.Keys(7), Prefix: "g",
		ModifyRequest: func(n int, r *load.Request) { r.Header = map[string]string{"N": strconv.Itoa(n)} },
	})
	for tick := time.NewTicker(time.Millisecond); g.Started() < 200; {
		<-tick.C
	}
	answers := g.Stop()
	if len(answers) < 200 || len(answers) != g.Started() || g.Pending() != 0 {
		t.Fatalf("%d answers to %d requests, %d waiting", len(answers), g.Started(), g.Pending())
	}
	ids, keys := make(map[string]bool), make(map[string]bool)
	for _, a := range answers {
		if !a.OK() || a.EchoID != a.ID || ids[a.ID] {
			t.Errorf("answer = %+v", a)
		}
		ids[a.ID] = true
		keys[a.Method+a.Key] = true
	}
	if len(keys) != 14 || int(posts.Load()) != len(answers)/2 {
		t.Errorf("%d methods and keys, %d posts of %d", len(keys), posts.Load(), len(answers))
	}
}

func TestKeysInCoversWantedShards(t *testing.T) {
	keys := load.KeysIn(64, 2, func(s int) bool { return s%3 == 0 })
	count := make(map[int]int)
	for _, k := range keys {
		count[load.ShardOf(k, 64)]++
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
