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

// handlerConn runs one request at a time in an app inside this process. To the proxy it is a
// connection to the app like any other: a pool lends it, a run uses it, and a cancellation
// closes it. To fasthttp it is the connection from which a Server reads one validated request
// header. The Server calls handle on the goroutine of the client's connection. What the Server
// writes after that is discarded, because handle has already responded.
//
// Each handlerConn has a Server of its own, because RequestCtx.Done reports the end of the
// Server: Close ends the Server, so that a cancellation reaches the handler of this request only.
type handlerConn struct {
	s    *Server
	wire wire

	// The following fields belong to the present request and to the goroutine of its connection.
	a              *requestState
	reply          reply
	p              *attempt
	attempt        attempt            // p points to it
	runNumber      uint32             // number of the run
	head           []byte             // header for fasthttp to read
	answered       bool               // handle has responded, and what fasthttp writes is discarded
	blank          *fasthttp.Response // the response as fasthttp gives it to the handler
	outcome        handlerOutcome
	failed         string // why the app failed
	disposition    disposition
	unusable       bool        // the pool must discard the connection
	body           handlerBody // the request body for a handler that accepts streams
	longBody       []byte      // a request body that does not fit into the buffer
	responseHeader []byte      // header of the response

	savedRemoteAddr atomic.Pointer[net.Addr] // savedRemoteAddr is the client address for a handler that still uses the request after TimeoutError.
	// closed is set first by Close. A stream that ends after that was cancelled.
	closed atomic.Bool
	// broke is set by a Task that panicked.
	taskFailed   atomic.Bool
	tasks        sync.WaitGroup
	runningTasks atomic.Int32 // number of tasks

	mu struct {
		sync.Mutex
		server *fasthttp.Server
		stream io.Closer // closed by Close; nil means that nothing is being read
		client *h1.Conn  // client whose body is being read; nil means none
	}
}

// headerBufferSize is the buffer size for request headers, in bytes. A longer header needs a new
// Server.
const headerBufferSize = 8 << 10

// newHandlerConn returns a connection to the app in this process.
func (s *Server) newHandlerConn(context.Context) (*upstreamConn, error) {
	t := &handlerConn{s: s}
	t.wire.handlerConn, t.body.conn = t, t
	t.mu.server = t.newServer(headerBufferSize)
	l := &upstreamConn{inproc: t, checkable: true} // checkable: it never ends on its own
	l.Conn = h1.NewConn(t, h1.Options{Buffers: &s.buffers})
	return l, nil
}

// newServer returns a Server for headers of up to head bytes. It calls Serve, which creates the
// channel that Close closes.
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

// serve makes fasthttp read the header and call handle.
func (t *handlerConn) serveFastHTTP(head []byte) {
	t.mu.Lock()
	if len(head) > headerBufferSize {
		t.mu.server, t.unusable = t.newServer(len(head)), true
	}
	server := t.mu.server
	t.mu.Unlock()
	t.head = head
	_ = server.ServeConn(&t.wire) // handle has already handled errors
}

// wire is the handlerConn as fasthttp uses it. fasthttp closes a connection after it has served
// it.
type wire struct{ *handlerConn }

// Close does nothing.
func (*wire) Close() error { return nil }

// Read gives fasthttp the header, and then io.EOF.
func (t *handlerConn) Read(p []byte) (int, error) {
	if len(t.head) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.head)
	t.head = t.head[n:]
	return n, nil
}

// Write discards what fasthttp writes after handle has responded. Before that, fasthttp must not
// write: responses are sent by the proxy's own Writer.
func (t *handlerConn) Write(p []byte) (int, error) {
	if !t.answered {
		return 0, errDirectWrite
	}
	return len(p), nil
}

// Close tells the handler that its response is not needed: by RequestCtx.Done, by the end of the
// stream that it writes, and by an error from the body that it reads. It does not wait for the
// handler.
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

// setStream sets the stream that Close must close; nil means none. If Close was called before,
// setStream closes the stream.
func (t *handlerConn) setStream(stream io.Closer) {
	t.mu.Lock()
	t.mu.stream = stream
	t.mu.Unlock()
	if stream != nil && t.closed.Load() {
		_ = stream.Close()
	}
}

// setBodySource sets the client connection from which the body is being read, and whose reading
// Close interrupts; nil means none. If Close was called before, setBodySource interrupts the
// reading.
func (t *handlerConn) setBodySource(client *h1.Conn) {
	t.mu.Lock()
	t.mu.client = client
	t.mu.Unlock()
	if client != nil && t.closed.Load() {
		client.StopRead()
	}
}

// LocalAddr returns the local address of the connection of the client.
func (t *handlerConn) LocalAddr() net.Addr {
	if a := t.a; a != nil {
		return a.conn.NetConn().LocalAddr()
	}
	return noAddr()
}

// RemoteAddr returns the address of the client, also for a request that another node has
// forwarded.
func (t *handlerConn) RemoteAddr() net.Addr {
	if known := t.savedRemoteAddr.Load(); known != nil {
		return *known
	}
	a := t.a
	switch {
	case a == nil:
		return noAddr()
	case a.ingress == "":
		return a.conn.NetConn().RemoteAddr()
	}
	list := a.req.Known(h1.FieldXForwardedFor) // set by the ingress; the last element is the address that it saw
	ip := net.ParseIP(string(bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:])))
	if ip == nil {
		return noAddr()
	}
	return &net.TCPAddr{IP: ip}
}

func noAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// SetDeadline does nothing: the handler's time is bounded by first-byte-timeout.
func (t *handlerConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: see SetDeadline.
func (t *handlerConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: see SetDeadline.
func (t *handlerConn) SetWriteDeadline(time.Time) error { return nil }

// noListener accepts nothing.
type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, io.EOF }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return noAddr() }

// appLog logs what handlers log through their RequestCtx.
type appLog struct{ s *Server }

// Printf implements fasthttp.Logger.
func (l appLog) Printf(format string, args ...any) {
	l.s.o.Log.Info().Str("from", "app").Msgf(format, args...)
}
