package proxy_test

import (
	"bufio"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
)

// The answer of an app in this process holds nobody up either, however long it goes on: who
// asked kept its turn until the last byte had gone out.
func TestHeldRequestsGoOnWithTheHeadOfAHandlersAnswer(t *testing.T) {
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
			clients := front.heldCrowd(owner, all)
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

// A request that waited for its owner, and then waits in line because that is busy, waits no
// longer than QueueWait in all. It had as much again from then on, in a line of which one asks
// every 200 ms, and its client was answered seconds late.
func TestWaitingAgainForABusyOwnerIsPartOfQueueWait(t *testing.T) {
	const waiters, wait = 300, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		ingress, owner, _, _ := dialedPair(t, func(o *proxy.Options) {
			o.UpstreamConns, o.QueueWait, o.FirstByteTimeout = 1, wait, time.Minute
		})
		stuck := ingress.crowdOf(1, "GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n") // half a minute
		time.Sleep(time.Second)                                                                // until it is at the app
		ingress.swap(1, 2, held(proxy.ReasonMoving))
		began := time.Now()
		crowd := ingress.crowd(waiters)
		time.Sleep(wait - time.Second)
		owner.swap(2, 2, local(1))
		ingress.swap(2, 2, remote("owner", 1))
		for _, c := range crowd {
			if res, body := c.answer("GET"); res.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s %s", res.Status, body)
			}
			if took := time.Since(began); took > wait+time.Second {
				t.Errorf("answered after %v, want %v", took, wait)
			}
			_ = c.Close()
		}
		served(t, stuck)
	})
}
