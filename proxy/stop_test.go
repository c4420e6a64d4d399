package proxy_test

import (
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
)

// A listener that stays open while the last connections end takes further ones in
// and resets them all at its end.
func TestNobodyIsTakenInWhileTheLastConnectionsEnd(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	idle := n.dial() // kept for a second
	idle.get("/")
	done := make(chan error, 1)
	go func() { done <- n.Shutdown(t.Context()) }()
	until(t, "refused", func() bool {
		c, err := net.Dial("tcp", n.addr)
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if res, _ := idle.get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("over the connection that was there: %v", res.Status)
	}
	idle.closed()
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
