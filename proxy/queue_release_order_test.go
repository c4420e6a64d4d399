package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/route"
)

// A queued request releases its turn when the response of an in-process app begins. Once, it kept its
// turn until the last byte was sent.
func TestQueuedRequestsContinueAtHandlerResponse(t *testing.T) {
	const all = 5
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			arrived, end := make(chan struct{}, all), make(chan struct{})
			front, owner := start(t, func(ctx *fasthttp.RequestCtx) {
				arrived <- struct{}{}
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
					_, _ = w.WriteString("first")
					_ = w.Flush()
					<-end
				})
			}, slowRamp)
			clients := front.queueRequests(owner, all)
			until(t, "at the app", func() bool { return len(arrived) == all })
			close(end)
			for _, c := range clients {
				if res, _ := c.answer("GET"); res.StatusCode != 200 {
					t.Errorf("answer = %v", res.Status)
				}
			}
		})
	}
}

// The total wait of a request is limited by QueueWait, even if it waits for an owner and then for a
// busy owner. Once, the second wait began with a full QueueWait, in a queue that probes every 200 ms,
// and the client got its response seconds late.
func TestRepeatedWaitCountsTowardsQueueWait(t *testing.T) {
	const waiters, wait = 300, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		ingress, owner, _, _ := dialedPair(t, func(o *proxy.Options) {
			o.MaxUpstreamConns, o.QueueWait, o.FirstByteTimeout = 1, wait, time.Minute
		})
		stuck := ingress.sendManyRequests(1, "GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n") // answered after half a minute
		time.Sleep(time.Second)                                                                         // until it is at the app
		ingress.swap(1, 2, held(route.ReasonMoving))
		began := time.Now()
		crowd := ingress.sendMany(waiters)
		time.Sleep(wait - time.Second)
		owner.swap(2, 2, local(1))
		ingress.swap(2, 2, remote("owner", 1))
		for _, c := range crowd {
			res, body := c.answer("GET")
			if res.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s %s", res.Status, body)
			}
			// A dial that is in progress at that time, here and at the owner, may use its own timeout.
			if took := time.Since(began); took > wait+2*(time.Second+100*time.Millisecond) {
				t.Errorf("answered after %v, want %v: %s", took, wait, body)
			}
			_ = c.Close()
		}
		served(t, stuck)
	})
}

// However a request that has waited ends, the next one is released without waiting for the ramp.
func TestEveryExitReleasesQueuePlace(t *testing.T) {
	const hang = "GET /hang HTTP/1.1\r\n"
	for name, p := range map[string]struct {
		begins string
		ends   func(owner *node, clients []*client)
	}{
		"its client leaves": {hang, func(_ *node, clients []*client) {
			for _, c := range clients {
				_ = c.Close()
			}
		}},
		"it is cut":          {hang, func(owner *node, _ []*client) { owner.CancelShards(allShards, "draining") }},
		"it is a stream":     {"GET /events HTTP/1.1\r\n", nil},
		"it is upgraded":     {"GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n", nil},
		"the app breaks off": {"POST /break HTTP/1.1\r\nContent-Length: 0\r\n", nil},
		"its body is late": {"POST /late HTTP/1.1\r\nContent-Length: 300000\r\n", func(_ *node, clients []*client) {
			for _, c := range clients {
				_ = c.Close()
			}
		}},
	} {
		for way, start := range ways() {
			t.Run(name+", "+way, func(t *testing.T) {
				var hanging atomic.Int32
				front, owner := start(t, breakingAt(t, &hanging), slowRamp)
				clients := front.queueTheseRequests(owner, p.begins, p.begins, "GET / HTTP/1.1\r\n")
				if p.ends != nil {
					until(t, "they run", func() bool { return owner.running.Load() == 2 })
					if p.begins == hang { // a run that is cut before it was sent begins again, because its owner is the same
						until(t, "they are at the app", func() bool { return hanging.Load() == 2 })
					}
					if st := front.room.Stats(); st.Due != 1 {
						t.Errorf("while two are away: %+v", st)
					}
					p.ends(owner, clients[:2])
				}
				if res, body := clients[2].answer("GET"); res.StatusCode != http.StatusOK {
					t.Errorf("the next: %s %s", res.Status, body)
				}
				owner.CancelShards(allShards, "draining")
			})
		}
	}
}

// breakingAt starts an app that hangs at /hang and counts these requests in hanging. It streams at
// /events, accepts upgrades, reads the whole body before it responds, and closes the connection at
// /break.
func breakingAt(t *testing.T, hanging *atomic.Int32) string {
	t.Helper()
	return webApp(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		case r.URL.Path == "/hang":
			hanging.Add(1)
			<-r.Context().Done()
		case r.URL.Path == "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/break":
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})
}
