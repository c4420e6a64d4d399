package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// The minimum body rate applies to a body that is discarded, for example of a request without a key.
// Once, such a body was read as long as one byte per second arrived: for up to eighteen hours. A
// connection in this state is not idle, so --max-conns of them kept all other clients out.
func TestMinBodyRateAppliesToDiscardedBodies(t *testing.T) {
	for _, framing := range []string{"Content-Length: 60000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nea60\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			sim := newSim(t)
			c := simNode(t, sim, "a", simple).dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\n%s", framing)
			res, body := c.answer("POST")
			wantStatus(t, res, body, 400, "no-key")
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				for range 600 {
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
					time.Sleep(900 * time.Millisecond)
				}
			}()
			c.closed()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%q: the connection was kept for %v", framing, took)
			}
			<-done
		})
	}
}
