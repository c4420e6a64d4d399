package gossip_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shardway/node/gossip"
)

// The error for a join address that is an admin or app port names that port. Once, it stated that the address belongs to a node without the
// secret.
func TestJoinAddressOfAnotherPortIsNamed(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(app.Close)
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Server", "shardway-admin") }))
	t.Cleanup(ops.Close)
	var lc net.ListenConfig
	mute, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	go func() {
		for c, err := mute.Accept(); err == nil; c, err = mute.Accept() {
			_, _ = c.Read(make([]byte, 64))
			_ = c.Close()
		}
	}()
	patient, failed := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if failed != nil {
		t.Fatal(failed)
	}
	t.Cleanup(func() { _ = patient.Close() })
	go func() { // the port waits for the end of a line, which gossip may not contain
		for c, err := patient.Accept(); err == nil; c, err = patient.Accept() {
			go func() {
				defer func() { _ = c.Close() }()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					switch {
					case err != nil:
						return
					case strings.HasPrefix(line, "GET "):
						_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
						return
					}
				}
			}()
		}
	}()
	plain, stop := real(t, gossip.Options{Tags: node("plain")})
	t.Cleanup(stop)
	addr := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	for name, keys := range map[string][][]byte{"plain": nil, "with a secret": {[]byte(strings.Repeat("k", 32))}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{patient.Addr().String(): "it is an HTTP port", addr(app): "it is an HTTP port and not a gossip port", addr(ops): "it is the admin port of a node", "127.0.0.1:1": "connection refused", mute.Addr().String(): "it hangs up: is it the peer port", "192.0.2.1:7946": "which other machines cannot reach"}
			join := []string{addr(app), addr(ops), "127.0.0.1:1", mute.Addr().String(), "192.0.2.1:7946", patient.Addr().String()}
			if keys != nil {
				want[plain.Addr().String()] = "it was started without the cluster's secret"
				join = append(join, plain.Addr().String())
			}
			g, stop := real(t, gossip.Options{Tags: node("a"), JoinAddrs: join, Keys: keys})
			defer stop()
			var tried []gossip.JoinAttempt
			for deadline := time.After(time.Minute); len(tried) == 0; tried = g.JoinAttempts() {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-deadline:
					t.Fatal("nothing was tried")
				}
			}
			if len(tried) != len(want) {
				t.Errorf("tried %v", tried)
			}
			for _, a := range tried {
				if w := want[a.Addr]; w == "" || !strings.Contains(a.Reason(), w) {
					t.Errorf("%s: %s, want %q", a.Addr, a.Reason(), w)
				}
			}
		})
	}
}
