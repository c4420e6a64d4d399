package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/secret"
	"shardway/internal/simnet"
	"shardway/peer/mux"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/upstream"
	"shardway/queue"
	"shardway/shardmap"
)

const shards = 16

// node is a Server with a fake cluster that the test controls, an app behind it, and listeners on
// loopback.
type node struct {
	*proxy.Server
	t                 *testing.T
	id                string
	addr              string                         // client address
	peer              string                         // peer address
	muxAddr           string                         // address for mux sessions of other nodes
	webSocketMuxAddr  string                         // address for their WebSocket sessions; empty: muxAddr
	muxSessions       atomic.Pointer[mux.SessionSet] // to other nodes; nil: the node opens no streams
	webSocketSessions atomic.Pointer[mux.SessionSet] // the same for WebSockets
	tap               func(net.Conn) net.Conn        // wraps the connections of mux sessions to other nodes; nil: no wrapper
	wraps             func(*mux.Stream) net.Conn     // replaces a stream that is handed out; nil: the stream itself
	others            sync.Map                       // id → *node

	table               atomic.Pointer[route.Table]
	lease               atomic.Int64 // remaining time in nanoseconds
	refuse              atomic.Int32 // result of Admit; zero: follow the table
	running             atomic.Int32
	asked               atomic.Int32 // calls of Admit
	admitted            atomic.Int32
	beforeAdmit         atomic.Pointer[func()] // runs once, at the next call of Admit; nil: none
	dials               atomic.Int32
	wanted              atomic.Int32               // attempts to open a stream, failed ones included
	lanes               atomic.Int32               // streams opened
	lane                atomic.Pointer[mux.Stream] // the most recent stream
	webSocketStreams    atomic.Int32               // opened for WebSockets
	lastWebSocketStream atomic.Pointer[mux.Stream] // the most recent of these streams
	laid                atomic.Int32               // mux sessions dialed
	unlaid              atomic.Int32               // failed dials of mux sessions
	hurries             bool                       // does not wait for a stream
	keys                *shardkey.Keys             // of the next table; nil: use the settings
	keysSince           uint64                     // epoch with which keys became active
	services            []route.Service            // of the next table; nil: one service
	awaiting            atomic.Int32               // calls of Await that blocked
	dialError           atomic.Bool
	swapped             struct {
		sync.Mutex
		ch chan struct{}
	}
	ends    []func() // run when the node ends, to close the connections that it accepted
	release func()
	lent    atomic.Int64 // bytes of buffers in use by connections
	room    *queue.Queue
	host    *simnet.Host                      // in a synctest bubble; nil: loopback sockets
	seal    atomic.Pointer[secret.TLSWrapper] // TLS between nodes; nil: plain
}

func (n *node) Table() *route.Table { return n.table.Load() }

func (n *node) Admit(s shardmap.Shard) (uint64, func(), error) {
	if f := n.beforeAdmit.Swap(nil); f != nil {
		(*f)()
	}
	n.asked.Add(1)
	n.running.Add(1)
	if r := route.Refusal(n.refuse.Load()); r != 0 {
		n.running.Add(-1)
		return 0, nil, r
	}
	r := n.table.Load().Route(s)
	if r.Kind != route.Local {
		n.running.Add(-1)
		return 0, nil, route.RefusedNotOwner
	}
	n.admitted.Add(1)
	return r.Epoch, n.release, nil
}

func (n *node) LeaseLeft() time.Duration { return time.Duration(n.lease.Load()) }

func (n *node) Await(ctx context.Context, committed, proposed uint64) bool {
	for {
		n.swapped.Lock()
		ch := n.swapped.ch
		n.swapped.Unlock()
		if t := n.table.Load(); t.Committed() >= committed && t.Proposed() >= proposed {
			return true
		}
		n.awaiting.Add(1)
		select {
		case <-ch:
		case <-ctx.Done():
			return false
		}
	}
}

// knows sets the address of another node. Requests may already be in flight.
func (n *node) knows(id string, other *node) { n.others.Store(id, other) }

func (n *node) Dial(ctx context.Context, id string) (net.Conn, error) {
	n.dials.Add(1)
	return n.reach(ctx, id, func(other *node) string { return other.peer })
}

// reach connects to an address of another node.
func (n *node) reach(ctx context.Context, id string, addr func(other *node) string) (net.Conn, error) {
	found, ok := n.others.Load(id)
	if !ok || n.dialError.Load() {
		return nil, errors.New("nobody there")
	}
	other, _ := found.(*node)
	conn, err := n.connect(ctx, addr(other))
	if s := n.seal.Load(); s != nil && err == nil {
		return s.Client(ctx, conn, id)
	}
	return conn, err
}

// connect dials an address of the test's network.
func (n *node) connect(ctx context.Context, addr string) (net.Conn, error) {
	if n.host != nil {
		return n.host.Dial(ctx, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// swap gives the node a new routing table.
func (n *node) swap(committed, proposed uint64, routeOf func(shardmap.Shard) route.Route) {
	generation := uint64(1)
	if old := n.table.Load(); old != nil {
		generation = old.Generation() + 1
	}
	n.table.Store(route.NewTable(route.TableSpec{
		Generation: generation, Committed: committed, Proposed: proposed, Shards: shards, Route: routeOf, Previous: n.table.Load(),
		Keys: n.keys, KeysSince: n.keysSince, Services: n.services,
	}))
	n.swapped.Lock()
	close(n.swapped.ch)
	n.swapped.ch = make(chan struct{})
	n.swapped.Unlock()
	if n.Server != nil {
		n.Wake(generation)
	}
}

func local(epoch uint64) func(shardmap.Shard) route.Route {
	return func(shardmap.Shard) route.Route { return route.Route{Kind: route.Local, Epoch: epoch} }
}

func remote(id string, epoch uint64) func(shardmap.Shard) route.Route {
	return func(shardmap.Shard) route.Route { return route.Route{Kind: route.Remote, Node: id, Epoch: epoch} }
}

func held(r route.Reason) func(shardmap.Shard) route.Route {
	return func(shardmap.Shard) route.Route { return route.Route{Kind: route.Queued, Reason: r} }
}

// newNode starts a node that serves every shard itself, in epoch 1.
func newNode(t *testing.T, id, app string, change ...func(*proxy.Options)) *node {
	t.Helper()
	clients, peers := listen(t), listen(t)
	n := &node{t: t, id: id, addr: clients.Addr().String(), peer: peers.Addr().String()}
	if app != "" {
		dial, err := upstream.URLDialer("http://" + app)
		if err != nil {
			t.Fatal(err)
		}
		change = append([]func(*proxy.Options){func(o *proxy.Options) { o.DialUpstream = dial }}, change...)
	}
	n.start(clients, peers, change)
	return n
}

// start starts serving clients and peers on the given listeners.
func (n *node) start(clients, peers net.Listener, change []func(*proxy.Options)) {
	t, id := n.t, n.id
	n.swapped.ch = make(chan struct{})
	n.lease.Store(int64(time.Hour))
	n.release = func() { n.running.Add(-1) }
	n.swap(1, 1, local(1))
	o := proxy.Options{
		Node: id, Cluster: n, Log: zerolog.Nop(), QueueWait: 5 * time.Second,
	}
	for _, f := range change {
		f(&o)
	}
	if o.Queue == nil {
		o.Queue = queue.New(queue.Options{Wait: o.QueueWait})
	}
	n.room = o.Queue
	n.Server = proxy.New(o)
	n.CountBuffers(&n.lent)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := n.ServeClients(ctx, clients); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("ServeClients of %s: %v", id, err)
		}
	})
	all.Go(func() {
		for {
			conn, err := peers.Accept()
			if err != nil {
				return
			}
			all.Go(func() { n.servePeer(ctx, conn, func(conn net.Conn) { n.ServePeer(ctx, conn, "other") }) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = peers.Close()
		for _, end := range n.ends {
			end()
		}
		all.Wait()
		ended, stop := context.WithTimeout(context.Background(), 20*time.Second)
		defer stop()
		if err := n.Shutdown(ended); err != nil {
			t.Errorf("Shutdown of %s: %v", id, err)
		}
		if s := n.webSocketSessions.Load(); s != nil {
			s.Close() // otherwise the WebSockets of its clients would resume over other nodes
		}
		if r := n.running.Load(); r != 0 {
			t.Errorf("%s ends with %d requests not released", id, r)
		}
	})
}

// servePeer passes a connection from another node to serve, under TLS if the nodes have a secret.
func (n *node) servePeer(ctx context.Context, conn net.Conn, serve func(net.Conn)) {
	if s := n.seal.Load(); s != nil {
		raw := conn
		var err error
		if conn, err = s.Server(ctx, raw); err != nil {
			_ = raw.Close()
			return
		}
	}
	serve(conn)
}

// pair starts an ingress without shards and the owner of all shards.
func pair(t *testing.T, app string, change ...func(*proxy.Options)) (ingress, owner *node) {
	t.Helper()
	owner = newNode(t, "owner", app, change...)
	ingress = newNode(t, "ingress", "", change...)
	ingress.knows("owner", owner)
	ingress.swap(1, 1, remote("owner", 1))
	return ingress, owner
}

// starter starts nodes in front of an app. It returns the node that the clients use and the owner of
// the shards.
type starter func(t *testing.T, app string, change ...func(*proxy.Options)) (front, owner *node)

// sealedPair is pair with TLS by a cluster secret between the nodes.
func sealedPair(t *testing.T, app string, change ...func(*proxy.Options)) (ingress, owner *node) {
	t.Helper()
	ingress, owner = pair(t, app, change...)
	seal(t, ingress, owner)
	return ingress, owner
}

// seal gives the nodes a common cluster secret.
func seal(t *testing.T, nodes ...*node) {
	t.Helper()
	l := secret.List{secret.Generate(time.Now())}
	for _, n := range nodes {
		trust, err := secret.Derive(l, n.id)
		if err != nil {
			t.Fatal(err)
		}
		n.seal.Store(secret.NewTLSWrapper(trust))
	}
}

// ways yields the routes to an app: through its own node, and through another node, with and without
// TLS between the two.
func ways() iter.Seq2[string, starter] {
	return func(yield func(string, starter) bool) {
		single := func(t *testing.T, app string, change ...func(*proxy.Options)) (*node, *node) {
			t.Helper()
			n := newNode(t, "owner", app, change...)
			return n, n
		}
		_ = yield("local", single) && yield("remote", pair) && yield("sealed", sealedPair) &&
			yield("lanes", overStreams(pair)) && yield("sealed lanes", overStreams(sealedPair))
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// webApp starts an app based on net/http and returns its address.
func webApp(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	ln := listen(t)
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return ln.Addr().String()
}

// rawApp starts an app that calls serve for each connection, and returns its address.
func rawApp(t *testing.T, serve func(conn net.Conn, r *bufio.Reader)) string {
	t.Helper()
	ln := listen(t)
	var all sync.WaitGroup
	over, end := context.WithCancel(context.WithoutCancel(t.Context()))
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				// A node keeps a dialed connection for longer than the test lasts.
				stop := context.AfterFunc(over, func() { _ = conn.Close() })
				defer stop()
				defer func() { _ = conn.Close() }()
				serve(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		end()
		all.Wait()
	})
	return ln.Addr().String()
}

// client is a raw connection to a node.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// dial connects to the node as a client.
func (n *node) dial() *client {
	n.t.Helper()
	return n.to(n.addr)
}

// stream opens a stream of forwarded requests to the node. The test plays the ingress.
func (n *node) stream() *client {
	n.t.Helper()
	return n.to(n.peer)
}

// to connects to an address of the node.
func (n *node) to(addr string) *client {
	n.t.Helper()
	conn, err := n.connect(context.Background(), addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	if n.host == nil {
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return &client{Conn: conn, t: n.t, r: bufio.NewReader(conn)}
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format, args...); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// reply is a response without its body.
type reply struct {
	StatusCode       int
	Status           string
	Header, Trailer  http.Header
	ContentLength    int64
	TransferEncoding []string
	Close            bool
}

// head reads the header section of a response. The caller reads the body from the returned reader.
func (c *client) head(method string) (*reply, io.Reader) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method}) //nolint:bodyclose // body closes it
	if err != nil {
		c.t.Fatalf("answer: %v", err)
	}
	r := &reply{
		StatusCode: res.StatusCode, Status: res.Status, Header: res.Header, Trailer: make(http.Header),
		ContentLength: res.ContentLength, TransferEncoding: res.TransferEncoding, Close: res.Close,
	}
	return r, &body{res: res, r: r}
}

// body reads the body of a response, and then its trailers.
type body struct {
	res *http.Response
	r   *reply
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.res.Body.Read(p)
	if errors.Is(err, io.EOF) {
		b.r.Trailer = b.res.Trailer
		_ = b.res.Body.Close()
	}
	return n, err
}

// answer reads one response with its body.
func (c *client) answer(method string) (*reply, string) {
	c.t.Helper()
	res, r := c.head(method)
	body, err := io.ReadAll(r)
	if err != nil {
		c.t.Fatalf("body of %s: %v", res.Status, err)
	}
	return res, string(body)
}

// get requests a path with a key and returns the response.
func (c *client) get(path string) (*reply, string) {
	c.t.Helper()
	c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", path)
	return c.answer("GET")
}

// closed fails the test unless the node closes the connection now.
func (c *client) closed() {
	c.t.Helper()
	switch b, err := c.r.ReadByte(); {
	case err == nil:
		rest, _ := io.ReadAll(c.r)
		c.t.Fatalf("more came: %q", string(b)+string(rest))
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.t.Fatal("it is still open")
	}
}

// until waits until ok returns true, and fails the test otherwise.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); {
		waited := time.Since(start)
		if waited > 30*time.Second {
			t.Fatalf("never: %s", what)
		}
		// With a mutant the condition often never holds. To check it every millisecond would take much CPU time.
		time.Sleep(min(max(time.Millisecond, waited/16), 100*time.Millisecond))
	}
}

func wantStatus(t *testing.T, res *reply, body string, status int, code string) {
	t.Helper()
	if res.StatusCode != status || res.Header.Get("Shardway-Error") != code {
		t.Fatalf("answer = %d %q %s, want %d %q", res.StatusCode, res.Header.Get("Shardway-Error"), body, status, code)
	}
}

func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String(), err
		}
	}
}

func shard(s int) shardmap.Shard { return shardmap.Shard(s) }
