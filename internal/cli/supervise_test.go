//go:build linux

package cli_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/internal/freeport"
)

// The service manager is notified when a node is not ready (with the reason), ready, reloading its
// settings, or stopping. `systemctl start` and `reload` wait for these messages.
func TestServiceManagerIsNotified(t *testing.T) {
	dir, err := os.MkdirTemp("", "sd") //nolint:usetesting // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	hear := func(words ...string) { // waits for a datagram that contains all words
		t.Helper()
		var all []string
		for b := make([]byte, 4096); ; {
			if wrong := c.SetReadDeadline(time.Now().Add(20 * time.Second)); wrong != nil {
				t.Fatal(wrong)
			}
			n, wrong := c.Read(b)
			if wrong != nil {
				t.Fatalf("%v, after %q: want %q", wrong, all, words)
			}
			all = append(all, string(b[:n]))
			missing := 0
			for _, w := range words {
				if !strings.Contains(string(b[:n]), w) {
					missing++
				}
			}
			if missing == 0 {
				return
			}
			if strings.Contains(string(b[:n]), "READY=1") {
				t.Fatalf("ready before %q: %q", words, all)
			}
		}
	}
	var well atomic.Bool
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(app.Close)
	n := &node{ended: make(chan int, 1), environ: []string{"NOTIFY_SOCKET=" + filepath.Join(dir, "n")}}
	ports := freeport.Addrs(t, 4)
	n.args = []string{
		"run", "--node=solo", "--data=" + filepath.Join(dir, "data"), "--upstream=" + app.URL, "--health=/", "--shards=16", "--log-format=json",
		"--listen=" + ports[0], "--admin=" + ports[1], "--gossip=" + ports[2], "--peer=" + ports[3],
	}
	n.launch(t)
	hear("STATUS=not ready: ")
	well.Store(true)
	hear("READY=1", "STATUS=serving")
	if err = syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	hear("RELOADING=1", "MONOTONIC_USEC=")
	hear("READY=1")
	n.stop()
	hear("STOPPING=1")
	if code := <-n.ended; code != 0 {
		t.Errorf("it ended with %d:\n%s", code, n.log.String())
	}
}
