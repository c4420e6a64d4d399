//go:build linux

package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// TestIdleConnectionsAreCheap keeps 10 000 connections open, each after one request, and
// measures the memory of the node per connection. They are opened a thousand at a time,
// each after the previous ones are parked, because the runtime returns unused memory to
// the system only slowly.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const conns, most = 10_000, 6 << 10 // bytes per connection
	c := start(t, 1)
	node := c.Node("a")
	key := c.AwaitServing(t).Keys(node.ID, 1)[0]
	request := []byte("GET / HTTP/1.1\r\nHost: app\r\nX-Shard-Key: " + key + "\r\n\r\n")
	opened := 0
	open := func(k int) {
		opened += k
		for range k {
			conn, err := net.Dial("tcp", node.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := conn.Write(request); err != nil {
				t.Fatal(err)
			}
			wantOK(t, conn)
		}
		cluster.Await(t, "idle connections are parked", func() error {
			m, err := node.Metrics(t.Context())
			if parked := m.Sum("shardway_idle_connections"); err == nil && parked < float64(opened) {
				err = fmt.Errorf("%v of %d", parked, opened)
			}
			return err
		})
	}
	open(200) // memory that does not depend on the number of connections is allocated after some
	before := residentBytes(t, node)
	for range conns / 1000 {
		open(1000)
	}
	each := (residentBytes(t, node) - before) / conns
	t.Logf("%d idle connections: %d bytes of resident memory each (%.1f KiB)", conns, each, float64(each)/1024)
	if each > most {
		t.Errorf("an idle connection holds %d bytes, want at most %d", each, most)
	}
	if resp := c.SendRequest(t, node, load.Request{Key: key}); !resp.OK() {
		t.Errorf("with idle connections, a request got %d %s", resp.Status, resp.Error)
	}
}

// wantOK reads one response.
func wantOK(t *testing.T, conn net.Conn) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 1<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("answer %s, %v", resp.Status, err)
	}
}

var residentLine = regexp.MustCompile(`VmRSS:\s*(\d+) kB`)

// residentBytes returns the resident memory of the process of a node, in bytes.
func residentBytes(t *testing.T, node *cluster.Node) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", node.Process().Pid))
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(string(residentLine.FindSubmatch(b)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// TestSlowHeadersDoNotDelayOtherClients has 1000 clients that send headers byte by byte
// and never complete them. Each gets a 408 after the header timeout, and the requests of
// other clients continue in the meantime.
func TestSlowHeadersDoNotDelayOtherClients(t *testing.T) {
	const slow = 1000
	c := start(t, 3, "--header-timeout", "3s")
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, 50)
	var refused, other atomic.Int64
	node := c.Node("a")
	for range slow {
		conn, err := net.Dial("tcp", node.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			if status := sendHeadersSlowly(conn); strings.HasPrefix(status, "HTTP/1.1 408 ") {
				refused.Add(1)
			} else {
				other.Add(1)
			}
		}()
	}
	cluster.Await(t, "each slow head is refused", func() error {
		if n := refused.Load(); n < slow {
			return fmt.Errorf("%d of %d, %d ended otherwise", n, slow, other.Load())
		}
		return nil
	})
	traffic.AwaitStarted(t, 50)
	traffic.Finish(t) // no request failed
}

// sendHeadersSlowly sends incomplete headers, four bytes per second, until a response arrives, and
// returns its first line.
func sendHeadersSlowly(conn net.Conn) string {
	answer := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, conn) // only the bytes before the end count
		line, _, _ := strings.Cut(b.String(), "\r\n")
		answer <- line
	}()
	drip := time.NewTicker(250 * time.Millisecond)
	defer drip.Stop()
	for b := []byte("GET / HTTP/1.1\r\nHost: app\r\nX-Slow: "); ; b = []byte("x") {
		if _, err := conn.Write(b); err != nil {
			return <-answer
		}
		select {
		case line := <-answer:
			return line
		case <-drip.C:
		}
	}
}
