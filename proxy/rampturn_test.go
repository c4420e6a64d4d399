package proxy_test

import (
	"bufio"
	"testing"

	"github.com/valyala/fasthttp"
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
