package peer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"shardway/peer"
)

// book is the address book of the nodes of a test.
type book struct {
	mu    sync.Mutex
	addrs map[string]string
}

func (b *book) set(node, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.addrs == nil {
		b.addrs = make(map[string]string)
	}
	b.addrs[node] = addr
}

func (b *book) lookup(node string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.addrs[node]
	return a, ok
}

func in(cluster string) func() string { return func() string { return cluster } }

// echo writes back all that it reads, until the peer closes its sending side.
func echo(_ context.Context, c *peer.Conn) {
	_, _ = io.Copy(c, c)
	_ = c.Close()
}

// serve runs p on a loopback port until the test ends, and adds its address to b.
func serve(t *testing.T, b *book, node string, p *peer.Port) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.set(node, ln.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve(%s) = %v, want nil after its context ended", node, err)
		}
	})
}

// echoes returns a port of node in cluster "c1" that echoes all stream kinds.
func echoes(t *testing.T, b *book, o peer.Options) *peer.Port {
	t.Helper()
	o.Lookup = b.lookup
	if o.Cluster == nil {
		o.Cluster = in("c1")
	}
	p := peer.New(o)
	for _, k := range []peer.Kind{peer.Raft, peer.Heartbeat, peer.Forward, peer.Control} {
		p.Handle(k, echo)
	}
	serve(t, b, o.Node, p)
	return p
}

func wantEcho(t *testing.T, c *peer.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != text {
		t.Fatalf("echo = %q, %v, want %q", got, err, text)
	}
}

func TestEveryKindReachesItsHandler(t *testing.T) {
	b := &book{}
	seen := make(chan peer.Kind, 1) // one dial at a time
	p := peer.New(peer.Options{Node: "b", Disk: "d2", Boot: 7, Cluster: in("c1")})
	kinds := []peer.Kind{peer.Raft, peer.Heartbeat, peer.Forward, peer.Control}
	for _, k := range kinds {
		p.Handle(k, func(ctx context.Context, c *peer.Conn) {
			if c.Node() != "a" || c.Boot() != 3 || c.Peer().Disk != "d1" || c.Peer().Cluster != "c1" {
				t.Errorf("the port sees %+v", c.Peer())
			}
			if c.Kind() != k {
				t.Errorf("kind = %v, want %v", c.Kind(), k)
			}
			seen <- k
			echo(ctx, c)
		})
	}
	serve(t, b, "b", p)
	a := peer.New(peer.Options{Node: "a", Disk: "d1", Boot: 3, Cluster: in("c1"), Lookup: b.lookup})
	for _, k := range kinds {
		c, err := a.DialServer(t.Context(), "b", "d2", k)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != k {
			t.Errorf("handled as %v, want %v", got, k)
		}
		if c.Node() != "b" || c.Boot() != 7 || c.Kind() != k || c.Peer().Disk != "d2" {
			t.Errorf("the dialer sees %+v as %v", c.Peer(), c.Kind())
		}
		wantEcho(t, c, "hello "+k.String())
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDialToOneself(t *testing.T) {
	b := &book{}
	p := echoes(t, b, peer.Options{Node: "a", Boot: 1})
	c, err := p.Dial(t.Context(), "a", peer.Forward)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	wantEcho(t, c, "me")
}

func TestDialErrorsAreDistinguishable(t *testing.T) {
	b := &book{}
	a := peer.New(peer.Options{Node: "a", Cluster: in("c1"), Lookup: b.lookup})
	if _, err := a.Dial(t.Context(), "b", peer.Forward); !errors.Is(err, peer.ErrUnknownNode) {
		t.Errorf("Dial without an address = %v, want ErrUnknownNode", err)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.set("b", ln.Addr().String())
	_ = ln.Close()
	if _, err := a.Dial(t.Context(), "b", peer.Forward); !peer.IsRefused(err) {
		t.Errorf("Dial to a closed port = %v, want IsRefused", err)
	}

	echoes(t, b, peer.Options{Node: "x"})
	b.set("b", b.addrs["x"])
	var re *peer.RefusedError
	if _, err := a.Dial(t.Context(), "b", peer.Forward); !errors.As(err, &re) || peer.IsRefused(err) {
		t.Errorf("Dial to another node's port = %v, want a RefusedError", err)
	}
}

func TestServeEndsWithItsHandlers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &book{}
	b.set("a", ln.Addr().String())
	p := peer.New(peer.Options{Node: "a", Cluster: in("c1"), Lookup: b.lookup})
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p.Handle(peer.Forward, func(_ context.Context, c *peer.Conn) {
		close(entered)
		if k, _ := c.Read(make([]byte, 1)); k != 0 {
			t.Error("read succeeded, want an error once the context ended")
		}
		<-leave
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	c, err := p.Dial(t.Context(), "a", peer.Forward)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	<-entered
	cancel()
	if k, _ := c.Read(make([]byte, 1)); k != 0 {
		t.Error("the dialer's read succeeded, want the stream closed")
	}
	select {
	case err = <-done:
		t.Errorf("Serve returned %v before its handler", err)
	default:
	}
	close(leave)
	if err := <-done; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	<-left
	if s := p.Stats(); s.Accepted != 1 {
		t.Errorf("accepted %d streams, want 1", s.Accepted)
	}
}

func TestListenerHandsStreamsOver(t *testing.T) {
	b := &book{}
	p := peer.New(peer.Options{Node: "a", Disk: "d", Cluster: in("c1"), Lookup: b.lookup})
	l := p.Listener(peer.Raft, &net.TCPAddr{})
	serve(t, b, "a", p)
	got := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	c, err := p.DialServer(t.Context(), "a", "d", peer.Raft)
	if err != nil {
		t.Fatal(err)
	}
	s := <-got
	if err = s.Close(); err != nil {
		t.Error(err)
	}
	if _, err = c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read after the taker's close = %v, want EOF", err)
	}
	_ = c.Close()
	_ = l.Close()
	if _, err = l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener = %v, want net.ErrClosed", err)
	}
	// A connection that arrives now is accepted by the port and closed at once.
	c, err = p.DialServer(t.Context(), "a", "d", peer.Raft)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read after the listener's close = %v, want EOF", err)
	}
}
