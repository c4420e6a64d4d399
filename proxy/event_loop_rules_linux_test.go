package proxy_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/internal/raceflag"
)

const askShort = "GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"

// pipeline sends a few requests at once from each of the clients, for a number of rounds. It calls
// meanwhile during the rounds and returns once all are answered.
func pipeline(t *testing.T, all []*client, rounds int, meanwhile func()) {
	t.Helper()
	const burst = 4
	var asking sync.WaitGroup
	for _, c := range all {
		asking.Go(func() {
			for round := range rounds {
				_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // an error shows with the next operation
				if _, err := io.WriteString(c, strings.Repeat(askShort, burst)); err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				for i := range burst {
					res, err := http.ReadResponse(c.r, nil)
					if err != nil {
						t.Errorf("round %d: answer %d never came: %v", round, i, err)
						return
					}
					if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ok" {
						t.Errorf("round %d: answer %d is %q, %v", round, i, body, err)
					}
					_ = res.Body.Close() // never fails
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { asking.Wait(); close(over) }()
	if meanwhile == nil {
		<-over
		return
	}
	for {
		select {
		case <-over:
			return
		default:
			meanwhile()
		}
	}
}

func okApp(t *testing.T) string {
	t.Helper()
	return webApp(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	})
}

// A connection may move to another event loop between two pipelined requests. The second one is
// answered there, although epoll reports no further event for it.
func TestConnMovesBetweenLoopsWithBufferedRequest(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	n := newNode(t, "a", okApp(t))
	all := make([]*client, 12)
	for i := range all {
		all[i] = n.dialToLoop()
	}
	pipeline(t, all, raceflag.Share(150, 40), func() {
		n.BalanceLoops(true)
		for range 6 {
			n.BalanceLoops(false)
		}
	})
}

// A request that arrives when its connection is about to be parked is answered. Its bytes were read
// and are no longer in the socket.
func TestRequestDuringParkRequestIsServed(t *testing.T) {
	n := newNode(t, "a", okApp(t))
	all := make([]*client, 32)
	for i := range all {
		all[i] = n.dialToLoop()
	}
	n.ParkAfter(0, 0)
	pipeline(t, all, raceflag.Share(100, 30), nil)
}

// A body that the app may read slowly is sent by a goroutine, because an app that does not read would
// block all other connections of the event loop.
func TestEventLoopSendsNoLongBody(t *testing.T) {
	n := newNode(t, "a", okApp(t))
	for _, c := range []struct{ length, carried int }{{4 << 10, 1}, {4<<10 + 1, 0}, {6000, 0}} {
		before := n.carried()
		client := n.dialToLoop()
		client.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n%s", c.length, strings.Repeat("x", c.length))
		if _, body := client.answer("POST"); body != "ok" {
			t.Fatalf("answer = %q", body)
		}
		_ = client.Close()
		until(t, "it is over", func() bool { return n.Connections() == 0 })
		if got := n.carried() - before; got > c.carried {
			t.Errorf("a loop has carried %d requests with bodies of %d bytes, want %d at most", got, c.length, c.carried)
		}
	}
}

// After a lack of descriptors, a connection is moved to an event loop later, but not tried with each
// request. Once, such a moment kept the connection out of event loops for its whole life.
func TestEventLoopIsRetriedAfterDescriptorsRanOut(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	n.ParkAfter(time.Hour, time.Hour)
	const few = 2
	n.FailDescriptors(few, 0)
	c := n.dial()
	for i := 0; !n.hasLoopConn(); i++ {
		if res, body := c.get("/"); res.StatusCode != 200 {
			t.Fatalf("answer = %d %q", res.StatusCode, body)
		}
		if i > 200 {
			t.Fatal("no loop has it")
		}
	}
}
