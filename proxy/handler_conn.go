package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
)

// handlerConn is where the app in this process runs one request at a time. To the proxy it
// is a connection to the app as any other: a pool lends it, a run goes over it, and
// who cuts the run closes it. To fasthttp it is the connection that a Server of its
// own reads one judged head from; the Server calls handle on the goroutine of the
// client's connection, and whatever it writes afterwards is dropped, for handle has
// answered by then.
//
// The Server is the seat's alone because that is whose end a RequestCtx's Done tells:
// Close ends it, and so the cut of one request reaches its handler and nobody else's.
type handlerConn struct {
	s    *Server
	wire wire

	// Of the present request, and the goroutine's of its connection.
	a        *requestState
	reply    reply
	p        *attempt
	attempt  attempt            // p
	number   uint32             // of the run
	head     []byte             // for fasthttp to read
	answered bool               // fasthttp may write what it likes
	blank    *fasthttp.Response // as fasthttp gives it to the handler
	outcome  outcome
	failed   string // why, when the app did
	fate     fate
	unusable bool   // not to be used again
	body     intake // what a handler reads that takes streams
	long     []byte // a body that is longer than what is kept
	made     []byte // the head of the answer

	remote atomic.Pointer[net.Addr] // of one that its handler may still use
	// closed is set first thing by Close: a stream that ends after it was cut.
	closed atomic.Bool
	// broke is set by a Task that panicked.
	broke atomic.Bool
	tasks sync.WaitGroup
	going atomic.Int32 // so many of them

	mu struct {
		sync.Mutex
		server *fasthttp.Server
		stream io.Closer // what Close wakes; nil: nothing is being read
		client *h1.Conn  // whose body is being read, likewise
	}
}

// headerBufferSize holds the head of a request; for one that is longer, a seat is made over.
const headerBufferSize = 8 << 10

// newHandlerConn makes a connection to the app in this process.
func (s *Server) newHandlerConn(context.Context) (*upstreamConn, error) {
	t := &handlerConn{s: s}
	t.wire.handlerConn, t.body.seat = t, t
	t.mu.server = t.newServer(headerBufferSize)
	l := &upstreamConn{inproc: t, checkable: true} // as good as one that can be looked at: it never ends by itself
	l.Conn = h1.NewConn(t, h1.Options{Buffers: &s.buffers})
	return l, nil
}

// newServer makes a Server that reads heads of so many bytes, and the channel that
// Close closes: Serve makes that.
func (t *handlerConn) newServer(head int) *fasthttp.Server {
	server := &fasthttp.Server{
		Handler: t.handle, ErrorHandler: func(*fasthttp.RequestCtx, error) {}, Logger: appLog{t.s},
		ReadBufferSize: head, WriteBufferSize: 512, Concurrency: 16, DisableKeepalive: true,
		NoDefaultServerHeader: true, NoDefaultDate: true, SecureErrorLogMessage: true,
		MaxIdleWorkerDuration: time.Millisecond, // how long the goroutine of Serve takes to end
	}
	_ = server.Serve(noListener{}) // ends at once
	return server
}

// serve has fasthttp read the head and call handle.
func (t *handlerConn) serve(head []byte) {
	t.mu.Lock()
	if len(head) > headerBufferSize {
		t.mu.server, t.unusable = t.newServer(len(head)), true
	}
	server := t.mu.server
	t.mu.Unlock()
	t.head = head
	_ = server.ServeConn(&t.wire) // what it has to say, handle has heard
}

// wire is the seat as fasthttp sees it, which closes what it has served.
type wire struct{ *handlerConn }

// Close does nothing.
func (*wire) Close() error { return nil }

// Read gives fasthttp the head, and then the end.
func (t *handlerConn) Read(p []byte) (int, error) {
	if len(t.head) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.head)
	t.head = t.head[n:]
	return n, nil
}

// Write takes what fasthttp writes after handle has answered. Before that nobody may
// write here: answers leave by the proxy's own Writer.
func (t *handlerConn) Write(p []byte) (int, error) {
	if !t.answered {
		return 0, errNotYours
	}
	return len(p), nil
}

// Close tells the handler that nobody waits for it any more, by its Done, by the end
// of the stream it writes, and by an error from the body it reads, which the client may
// take its time to send. It does not wait for the handler.
func (t *handlerConn) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.mu.Lock()
	stream, client, server := t.mu.stream, t.mu.client, t.mu.server
	t.mu.Unlock()
	if client != nil {
		client.StopRead()
	}
	if stream != nil {
		_ = stream.Close()
	}
	at, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.ShutdownWithContext(at) // closes Done, and waits for nothing
	return nil
}

// reading says what Close has to wake; nil: nothing. It closes it if Close has been.
func (t *handlerConn) reading(stream io.Closer) {
	t.mu.Lock()
	t.mu.stream = stream
	t.mu.Unlock()
	if stream != nil && t.closed.Load() {
		_ = stream.Close()
	}
}

// uploads says from whom a body is being read, which Close ends; nil: from nobody any
// more. It ends it if Close has been.
func (t *handlerConn) uploads(client *h1.Conn) {
	t.mu.Lock()
	t.mu.client = client
	t.mu.Unlock()
	if client != nil && t.closed.Load() {
		client.StopRead()
	}
}

// LocalAddr is where the client's connection came in.
func (t *handlerConn) LocalAddr() net.Addr {
	if a := t.a; a != nil {
		return a.conn.NetConn().LocalAddr()
	}
	return nowhere()
}

// RemoteAddr is the client's, also of a request that another node has forwarded.
func (t *handlerConn) RemoteAddr() net.Addr {
	if known := t.remote.Load(); known != nil {
		return *known
	}
	a := t.a
	switch {
	case a == nil:
		return nowhere()
	case a.ingress == "":
		return a.conn.NetConn().RemoteAddr()
	}
	list := a.req.Known(h1.FieldXForwardedFor) // the ingress's: the last one is whom it saw
	ip := net.ParseIP(string(bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:])))
	if ip == nil {
		return nowhere()
	}
	return &net.TCPAddr{IP: ip}
}

func nowhere() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// SetDeadline does nothing: the handler's time is bounded by first-byte-timeout.
func (t *handlerConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing either.
func (t *handlerConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing either.
func (t *handlerConn) SetWriteDeadline(time.Time) error { return nil }

// noListener accepts nothing.
type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, io.EOF }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return nowhere() }

// appLog takes what handlers log by their RequestCtx.
type appLog struct{ s *Server }

// Printf is fasthttp.Logger's.
func (l appLog) Printf(format string, args ...any) {
	l.s.o.Log.Info().Str("from", "app").Msgf(format, args...)
}
