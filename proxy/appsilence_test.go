package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/simnet"
	"shardway/proxy/appsilence"
)

// TestHangingAppIsDetected uses an app that answers /poll after 30 s, and reads a POST without ever
// answering it.
func TestHangingAppIsDetected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim := simnet.New(simnet.Config{})
		defer sim.Close()
		n := simNode(t, sim, "a", func(conn net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				if req.Method == http.MethodPost {
					_, _ = io.Copy(io.Discard, conn)
					return
				}
				time.Sleep(30 * time.Second)
				if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
					return
				}
			}
		})
		poll := n.dial()
		for range 5 {
			poll.send("GET /poll HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			for range 29 {
				time.Sleep(time.Second)
				if x := n.AppSilence(); x != (appsilence.Report{}) {
					t.Fatalf("long polls count as a hang: %+v", x)
				}
			}
			if res, _ := poll.answer("GET"); res.StatusCode != http.StatusOK {
				t.Fatal(res.Status)
			}
		}
		post := n.dial()
		post.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
		time.Sleep(62 * time.Second) // more than twice the time of a long poll
		if x := n.AppSilence(); x.WaitingRequests != 1 || x.SilentFor < time.Minute {
			t.Errorf("a POST has waited for a minute: %+v", x)
		}
	})
}
