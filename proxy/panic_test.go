package proxy_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/shardmap"
)

// buggy is a Cluster that panics on demand.
type buggy struct {
	*node
	lease, table atomic.Bool
}

func (b *buggy) LeaseLeft() time.Duration {
	if b.lease.Load() {
		panic("lease")
	}
	return b.node.LeaseLeft()
}

func (b *buggy) Admit(s shardmap.Shard) (uint64, func(), error) {
	if b.table.Load() {
		panic("table")
	}
	return b.node.Admit(s)
}

type panicLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *panicLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// A panic ends one request and its connection only. The request's upstream connection and its part of
// the shard's count are released.
func TestPanicEndsOneRequestOnly(t *testing.T) {
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	})
	for name, bug := range map[string]func(b *buggy, on bool){
		"at admission":              func(b *buggy, on bool) { b.table.Store(on) },
		"before the first byte":     func(b *buggy, on bool) { b.lease.Store(on) },
		"before the body is wanted": func(b *buggy, on bool) { b.lease.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			log := &panicLog{}
			b := &buggy{}
			n := newNode(t, "owner", app, func(o *proxy.Options) {
				b.node, _ = o.Cluster.(*node)
				o.Cluster, o.Log, o.MaxUpstreamConns = b, zerolog.New(log), 1
			})
			ask := func() (int, error) {
				c, err := net.Dial("tcp", n.addr)
				if err != nil {
					return 0, err
				}
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(30 * time.Second))
				body := strings.Repeat("x", 100_000)
				if !strings.Contains(name, "body") {
					body = "x"
				}
				if _, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nX-Shard-Key: k\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
					return 0, err
				}
				res, err := io.ReadAll(c)
				if len(res) == 0 {
					return 0, err
				}
				return int(res[9]-'0') * 100, nil
			}
			if code, err := ask(); code != 200 {
				t.Fatalf("before: %d, %v", code, err)
			}
			bug(b, true)
			for range 3 { // more than the number of upstream connections
				if code, _ := ask(); code != 0 {
					t.Errorf("with the bug: %d, want the connection cut", code)
				}
			}
			bug(b, false)
			if code, err := ask(); code != 200 {
				t.Errorf("after: %d, %v, want 200", code, err)
			}
			// The last request that panicked decreases the count after its connections are closed.
			until(t, "no request counts as running", func() bool { return n.running.Load() == 0 })
			log.mu.Lock()
			defer log.mu.Unlock()
			if got := strings.Count(log.b.String(), "request panicked"); got != 3 {
				t.Errorf("%d lines, want 3:\n%s", got, &log.b)
			}
		})
	}
}
