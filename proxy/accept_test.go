package proxy_test

import (
	"bytes"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/proxy/upstream"
)

// starved is a listener whose first calls of Accept fail for lack of file descriptors.
type starved struct {
	net.Listener
	left atomic.Int32
}

func (l *starved) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// lines is a log that tests read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

func TestAcceptResumesAfterDescriptorsRanOut(t *testing.T) {
	said := new(lines)
	clients, peers := listen(t), listen(t)
	n := &node{t: t, id: "a", addr: clients.Addr().String(), peer: peers.Addr().String()}
	dial, err := upstream.URLDialer("http://" + webApp(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	hungry := &starved{Listener: clients}
	hungry.left.Store(4)
	n.start(hungry, peers, []func(*proxy.Options){func(o *proxy.Options) {
		o.Log, o.DialUpstream = zerolog.New(said), dial
	}})
	if res, _ := n.dial().get("/"); res.StatusCode != 200 {
		t.Errorf("afterwards: %v", res.Status)
	}
	for _, text := range []string{"accepting paused", "too many open files", "accepting resumed"} {
		if !said.has(text) {
			t.Errorf("the log does not say %q", text)
		}
	}
}

// When the process has no file descriptors left, idle connections are closed to free some.
func TestAcceptClosesIdleConnsWithoutDescriptors(t *testing.T) {
	clients, peers := listen(t), listen(t)
	hungry := &starved{Listener: clients}
	n := &node{t: t, id: "a", addr: clients.Addr().String(), peer: peers.Addr().String()}
	dial, err := upstream.URLDialer("http://" + webApp(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	n.start(hungry, peers, []func(*proxy.Options){func(o *proxy.Options) { o.DialUpstream = dial }})
	idle := n.dial()
	idle.get("/")
	time.Sleep(1100 * time.Millisecond) // until the connections are idle
	// The listener already waits in Accept, so it accepts one more connection.
	hungry.left.Store(8)
	n.dial().get("/")
	idle.closed()
	if hungry.left.Load() < 0 {
		t.Error("closed for another reason")
	}
	if res, _ := n.dial().get("/"); res.StatusCode != 200 {
		t.Errorf("afterwards: %v", res.Status)
	}
}
