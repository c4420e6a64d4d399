package admin_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/apitest"
)

// A connection without a request does not delay a stop. Browsers open such connections in advance, and
// health checks of load balancers leave them open. Once, they kept a process that had handed over
// everything running for three seconds.
func TestSilentConnectionsDoNotHoldAStop(t *testing.T) {
	served := func() *admin.Server {
		return admin.New(admin.Options{API: apitest.SetOf(newFake()), Log: zerolog.Nop()})
	}
	serverInBubble(t, served, func(_ *admin.Server, dial func() net.Conn, stop func()) {
		silent := []net.Conn{dial(), dial()}
		asked := dial()
		if status, _ := exchange(t, asked, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"); status != 200 {
			t.Errorf("status %d", status)
		}
		synctest.Wait()
		began := time.Now()
		stop()
		for _, c := range append(silent, asked) {
			_, _ = c.Read(make([]byte, 1)) // returns when the server closes the connection
			_ = c.Close()
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("connections without a request were closed after %v", took)
		}
	})
}
