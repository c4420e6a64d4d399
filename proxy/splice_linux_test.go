package proxy_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// longApp responds with as many bytes as the path says. The content differs at every position. The
// query selects the framing.
func longApp(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Path[1:])
	w.Header().Set("Content-Length", strconv.Itoa(n))
	switch r.URL.RawQuery {
	case "304":
		w.WriteHeader(http.StatusNotModified)
		return
	case "endless":
		part := counted(1 << 20)
		for range n >> 20 {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		return
	case "dies":
		_, _ = io.WriteString(w, counted(n/2))
		panic(http.ErrAbortHandler)
	}
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, counted(n))
	}
}

// counted returns n bytes in which each position can be recognized.
func counted(n int) string {
	var b strings.Builder
	b.Grow(n + 16)
	for b.Len() < n {
		b.WriteString(strconv.Itoa(b.Len()))
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// spliced returns counters of the bytes that each node splices.
func spliced(nodes ...*node) (all []*atomic.Int64) {
	for _, n := range nodes {
		count := new(atomic.Int64)
		n.CountSpliced(count)
		all = append(all, count)
	}
	return all
}

// Long responses are spliced in the kernel at every node between two plain sockets. Later requests on
// the same connections are not affected.
func TestLongResponsesAreSpliced(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, longApp))
			counts := spliced(front)
			if owner != front {
				counts = append(counts, spliced(owner)...)
			}
			c := front.dial()
			for range 2 {
				for _, n := range []int{3 << 20, 5, 1 << 20, 0} {
					if res, body := c.get("/" + strconv.Itoa(n)); res.StatusCode != http.StatusOK || body != counted(n) {
						t.Fatalf("%s: %d bytes, want %d", res.Status, len(body), n)
					}
				}
				c.send("HEAD /2000000 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				if res, _ := c.head("HEAD"); res.ContentLength != 2_000_000 {
					t.Errorf("HEAD: length %d", res.ContentLength)
				}
				if res, body := c.get("/2000000?304"); res.StatusCode != http.StatusNotModified || body != "" {
					t.Errorf("304: %s, %d bytes", res.Status, len(body))
				}
			}
			for i, count := range counts {
				if n := count.Load(); n > 0 == strings.HasPrefix(way, "sealed") {
					t.Errorf("node %d spliced %d bytes", i, n)
				}
			}
			until(t, "released", func() bool { return owner.running.Load() == 0 })
		})
	}
}

// With TLS, responses pass through the process and are not spliced.
func TestTLSResponsesAreNotSpliced(t *testing.T) {
	n, conf := tlsFront(t, webApp(t, longApp))
	count := spliced(n)[0]
	if res, body := n.dialFront(conf).get("/2000000"); body != counted(2_000_000) {
		t.Errorf("%s: %d bytes", res.Status, len(body))
	}
	if s := count.Load(); s != 0 {
		t.Errorf("%d bytes were spliced", s)
	}
}

// A crash of the app, the loss of the shard and a client's disconnect end a spliced response as any
// other response: it is visibly truncated, and its request is not left among the open ones.
func TestSplicedResponsesEndWithTheirRun(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, longApp))
			for name, tc := range map[string]struct {
				path string
				end  func(c *client)
			}{
				"the app dies":      {"/4000000?dies", func(*client) {}},
				"the shard is gone": {"/1073741824?endless", func(*client) { owner.CancelShards(allShards, "draining") }},
				"the client leaves": {"/1073741824?endless", func(c *client) { _ = c.Close() }},
			} {
				c := front.dial()
				c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", tc.path)
				_, body := c.head("GET")
				if _, err := io.CopyN(io.Discard, body, 1<<20); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				tc.end(c)
				if _, err := io.Copy(io.Discard, body); err == nil {
					t.Errorf("%s: the answer looks whole", name)
				}
				until(t, name+": released", func() bool { return owner.running.Load() == 0 })
			}
			if res, body := front.dial().get("/1000000"); body != counted(1_000_000) {
				t.Errorf("afterwards: %s, %d bytes", res.Status, len(body))
			}
		})
	}
}
