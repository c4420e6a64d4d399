package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/upstream"
)

// nodeUnderTLS is newNode with TLS for clients. Clients must connect with dialTLS.
func nodeUnderTLS(t *testing.T, app string, change ...func(*proxy.Options)) *node {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	clients, peers := listen(t), listen(t)
	n := &node{t: t, id: "a", addr: clients.Addr().String(), peer: peers.Addr().String()}
	dial, err := upstream.URLDialer("http://" + app)
	if err != nil {
		t.Fatal(err)
	}
	change = append(change, func(o *proxy.Options) { o.DialUpstream = dial })
	n.start(tls.NewListener(clients, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}), peers, change)
	return n
}

// dialTLS opens a TLS connection to the node.
func (n *node) dialTLS() *client {
	n.t.Helper()
	c := n.dial()
	conn := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
	if err := conn.HandshakeContext(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	c.Conn = conn
	c.r.Reset(conn)
	return c
}

// The disconnect of a client is detected while its request waits for its shard, for an upstream
// connection, or for the first byte, with and without TLS.
func TestDisconnectIsDetectedOnEveryNode(t *testing.T) {
	for name, dial := range map[string]func(*node) *client{"plain": (*node).dial, "TLS": (*node).dialTLS} {
		t.Run(name, func(t *testing.T) {
			var aborted atomic.Int32
			app := webApp(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // net/http detects a disconnect only after that
				<-r.Context().Done()
				aborted.Add(1)
			})
			one := func(o *proxy.Options) { o.MaxUpstreamConns, o.QueueWait = 1, time.Minute }
			n := newNode(t, "a", app, one)
			if name == "TLS" {
				n = nodeUnderTLS(t, app, one)
			}
			n.swap(1, 2, held(route.ReasonMoving))
			c := dial(n)
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
			until(t, "held", func() bool { return n.room.Stats().Waiting == 1 })
			_ = c.Close()
			until(t, "gone from the queue", func() bool { return n.room.Stats().Waiting == 0 })

			n.swap(2, 2, local(2))
			first, second := dial(n), dial(n)
			first.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
			until(t, "running", func() bool { return n.running.Load() == 1 })
			second.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\n\r\nx")
			until(t, "waiting for a connection", func() bool { return n.room.Stats().Waiting == 1 })
			_ = second.Close()
			until(t, "gone from the line", func() bool { return n.room.Stats().Waiting == 0 })
			_ = first.Close()
			until(t, "aborted", func() bool { return aborted.Load() == 1 && n.running.Load() == 0 })
		})
	}
}

// counting counts the bytes that pass through a reader or writer.
type counting struct {
	w io.Writer
	r io.Reader
	n atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// stands waits until a counter no longer changes, and returns it.
func stands(c *atomic.Int64) int64 {
	last := c.Load()
	for calm := 0; calm < 20; calm++ {
		time.Sleep(10 * time.Millisecond)
		if now := c.Load(); now != last {
			last, calm = now, 0
		}
	}
	return last
}

// heap returns the bytes in use after garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const mebibyte = 1 << 20

// A receiver that does not read blocks the sender. The proxy buffers a limited amount, independent of the
// socket buffers of the system.
func TestBackPressure(t *testing.T) {
	for way, start := range ways() {
		t.Run(way+" answer", func(t *testing.T) {
			var sent atomic.Pointer[counting]
			release := make(chan struct{})
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, _ *http.Request) {
				c := &counting{w: w}
				sent.Store(c)
				_, _ = io.CopyN(c, zeros{}, 256*mebibyte)
				<-release
			}))
			defer close(release)
			c := front.dial()
			before := heap()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			until(t, "begun", func() bool { return sent.Load() != nil })
			passed := stands(&sent.Load().n)
			if after := heap(); after > before+mebibyte {
				t.Errorf("%d KiB are held for a client that does not read", (after-before)>>10)
			}
			if passed > 64*mebibyte {
				t.Errorf("%d MiB went out of an app whose client does not read", passed>>20)
			}
		})
		t.Run(way+" request", func(t *testing.T) {
			release := make(chan struct{})
			front, owner := start(t, webApp(t, func(http.ResponseWriter, *http.Request) { <-release }))
			defer close(release)
			c := front.dial()
			before := heap()
			sent := &counting{w: c.Conn}
			go func() {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n", 256*mebibyte)
				_, _ = io.CopyN(sent, zeros{}, 256*mebibyte)
			}()
			until(t, "running", func() bool { return owner.running.Load() == 1 })
			passed := stands(&sent.n)
			if after := heap(); after > before+mebibyte {
				t.Errorf("%d KiB are held for an app that does not read", (after-before)>>10)
			}
			if passed > 64*mebibyte {
				t.Errorf("%d MiB came from a client whose app does not read", passed>>20)
			}
			_ = c.Close()
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A body of any length is forwarded in constant memory. The length is 64 MiB, 16 MiB with the race
// detector, or SHARDWAY_TEST_MIB.
func TestLongBodiesPassInConstantMemory(t *testing.T) {
	size := int64(64 * mebibyte)
	if raceEnabled {
		size /= 4
	}
	if mib, err := strconv.ParseInt(os.Getenv("SHARDWAY_TEST_MIB"), 10, 32); err == nil {
		size = mib * mebibyte
	}
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex()
				_, _ = io.Copy(w, r.Body)
			}))
			c := front.dial()
			_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
			go func() {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n", size)
				_, _ = io.CopyN(c.Conn, zeros{}, size)
			}()
			res, r := c.head("POST")
			got := &counting{r: r}
			// Connections and buffers are allocated during the first quarter. Memory that is added
			// later would contain the body.
			if _, err := io.CopyN(io.Discard, got, size/4); err != nil {
				t.Fatal(err)
			}
			before := heap()
			if _, err := io.CopyN(io.Discard, got, size/2); err != nil {
				t.Fatal(err)
			}
			if after := heap(); after > before+mebibyte {
				t.Errorf("%d KiB more are held after half of %d MiB", (after-before)>>10, size>>20)
			}
			if _, err := io.Copy(io.Discard, got); err != nil || got.n.Load() != size {
				t.Errorf("%v: %d bytes of %d, %v", res.Status, got.n.Load(), size, err)
			}
		})
	}
}
