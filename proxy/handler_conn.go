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

	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
)

// handlerConn passes one request at a time to an app inside this process. To the proxy it is a
// connection to the app like any other: it belongs to a pool, a run uses it, and a cancellation
// closes it. To fasthttp it is a connection from which a Server reads one validated request header.
// The Server calls handle on the goroutine of the client's connection. Its output after that is
// discarded, because handle has already sent the response.
//
// Each handlerConn has its own Server, because RequestCtx.Done reports the end of the Server. Close
// ends the Server, so that a cancellation affects only the handler of this request.
type handlerConn struct {
	server       *Server
	fasthttpConn fasthttpConn

	// Present request. These fields belong to the goroutine of its connection.

	state     *requestState
	reply     reply
	active    *attempt       // points to attempt
	attempt   attempt        // copy of the attempt that runs the request
	runNumber uint32         // number of the run
	outcome   handlerOutcome // result of the request so far
	failure   string         // reason why the app failed; see handleRequest
	answered  bool           // handle has sent the response, so the output of fasthttp is discarded

	// Buffers and bodies.

	unreadHeader   []byte             // request header for fasthttp to read
	body           handlerBody        // the request body for a handler that accepts streams
	largeBody      []byte             // a request body that does not fit into the buffer
	responseHeader []byte             // header of the response
	emptyResponse  *fasthttp.Response // an unused Response, to reset the Response of the RequestCtx

	// End of the request.

	disposition disposition
	unusable    bool        // the pool must discard the connection
	closed      atomic.Bool // set at the start of Close. If a stream ends later, it was cancelled.
	// savedRemoteAddr is the client address for a handler that still uses the request after
	// TimeoutError.
	savedRemoteAddr atomic.Pointer[net.Addr]

	// Tasks of the request.

	tasks        sync.WaitGroup
	runningTasks atomic.Int32 // number of running tasks
	taskFailed   atomic.Bool  // a Task has failed or panicked

	mu struct {
		sync.Mutex
		server *fasthttp.Server
		stream io.Closer       // closed by Close; nil means that nothing is being read
		client inbound.Request // client from which the body is being read; nil means none
	}
}

// headerBufferSize is the buffer size for request headers, in bytes. A longer header needs a new
// Server.
const headerBufferSize = 8 << 10

// newHandlerConn returns a connection to the app in this process.
func (s *Server) newHandlerConn(context.Context) (*connpool.Conn, error) {
	hc := &handlerConn{server: s}
	hc.fasthttpConn.handlerConn, hc.body.conn = hc, hc
	hc.mu.server = hc.newServer(headerBufferSize)
	conn := &connpool.Conn{InProcess: true, Checkable: true} // it never ends without a Close, so it needs no socket to be checked
	conn.Conn = h1.NewConn(hc, h1.Options{Buffers: &s.buffers})
	return conn, nil
}

// newServer returns a Server for headers of up to maxHeader bytes. It calls Serve once, because Serve
// creates the channel that Close closes.
func (hc *handlerConn) newServer(maxHeader int) *fasthttp.Server {
	server := &fasthttp.Server{
		Handler: hc.handle, ErrorHandler: func(*fasthttp.RequestCtx, error) {}, Logger: appLog{hc.server},
		ReadBufferSize: maxHeader, WriteBufferSize: 512, Concurrency: 16, DisableKeepalive: true,
		NoDefaultServerHeader: true, NoDefaultDate: true, SecureErrorLogMessage: true,
		MaxIdleWorkerDuration: time.Millisecond, // how long the goroutine of Serve runs before it ends
	}
	_ = server.Serve(noListener{}) // returns immediately
	return server
}

// serveFastHTTP makes fasthttp read the header and call handle.
func (hc *handlerConn) serveFastHTTP(header []byte) {
	hc.mu.Lock()
	if len(header) > headerBufferSize {
		hc.mu.server, hc.unusable = hc.newServer(len(header)), true
	}
	server := hc.mu.server
	hc.mu.Unlock()
	hc.unreadHeader = header
	_ = server.ServeConn(&hc.fasthttpConn) // handle has already handled any error
}

// fasthttpConn is the handlerConn as fasthttp uses it. Its Close does nothing, because fasthttp closes
// each connection after it has served it.
type fasthttpConn struct{ *handlerConn }

// Close does nothing.
func (*fasthttpConn) Close() error { return nil }

// Read gives fasthttp the header, and then io.EOF.
func (hc *handlerConn) Read(p []byte) (int, error) {
	if len(hc.unreadHeader) == 0 {
		return 0, io.EOF
	}
	n := copy(p, hc.unreadHeader)
	hc.unreadHeader = hc.unreadHeader[n:]
	return n, nil
}

// Write discards the output of fasthttp after handle has sent the response. Before that it returns
// an error, because only the proxy's own Writer may send the response.
func (hc *handlerConn) Write(p []byte) (int, error) {
	if !hc.answered {
		return 0, errDirectWrite
	}
	return len(p), nil
}

// Close cancels the request of the handler. It ends RequestCtx.Done and the stream that the handler
// writes, and makes reads of the request body fail. It does not wait for the handler.
func (hc *handlerConn) Close() error {
	if hc.closed.Swap(true) {
		return nil
	}
	hc.mu.Lock()
	stream, client, server := hc.mu.stream, hc.mu.client, hc.mu.server
	hc.mu.Unlock()
	if client != nil {
		client.StopRead()
	}
	if stream != nil {
		_ = stream.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = server.ShutdownWithContext(ctx) // closes the channel of RequestCtx.Done, and does not wait
	return nil
}

// setStream sets the stream that Close must close; nil means none. If Close has already been
// called, setStream closes the stream.
func (hc *handlerConn) setStream(stream io.Closer) {
	hc.mu.Lock()
	hc.mu.stream = stream
	hc.mu.Unlock()
	if stream != nil && hc.closed.Load() {
		_ = stream.Close()
	}
}

// setBodySource sets the client connection from which the body is being read, so that Close can
// interrupt the reading; nil means none. If Close has already been called, setBodySource interrupts
// the reading.
func (hc *handlerConn) setBodySource(client inbound.Request) {
	hc.mu.Lock()
	hc.mu.client = client
	hc.mu.Unlock()
	if client != nil && hc.closed.Load() {
		client.StopRead()
	}
}

// LocalAddr returns the local address of the connection of the client.
func (hc *handlerConn) LocalAddr() net.Addr {
	if state := hc.state; state != nil {
		local, _ := state.inbound.Addrs()
		return local
	}
	return noAddr()
}

// RemoteAddr returns the address of the client, even for a request that another node has forwarded.
func (hc *handlerConn) RemoteAddr() net.Addr {
	if saved := hc.savedRemoteAddr.Load(); saved != nil {
		return *saved
	}
	state := hc.state
	switch {
	case state == nil:
		return noAddr()
	case state.ingress == "":
		_, remote := state.inbound.Addrs()
		return remote
	}
	// The ingress sets X-Forwarded-For. The last element is the address of its client.
	forwardedFor := state.req.Known(h1.FieldXForwardedFor)
	lastElement := forwardedFor[bytes.LastIndexByte(forwardedFor, ',')+1:]
	ip := net.ParseIP(string(bytes.TrimSpace(lastElement)))
	if ip == nil {
		return noAddr()
	}
	return &net.TCPAddr{IP: ip}
}

// noAddr returns an address for a connection whose address is unknown.
func noAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// SetDeadline does nothing. first-byte-timeout limits the time of the handler.
func (hc *handlerConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing, like SetDeadline.
func (hc *handlerConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, like SetDeadline.
func (hc *handlerConn) SetWriteDeadline(time.Time) error { return nil }

// noListener is a listener without connections.
type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, io.EOF }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return noAddr() }

// appLog logs what handlers log through their RequestCtx.
type appLog struct{ server *Server }

// Printf implements fasthttp.Logger.
func (l appLog) Printf(format string, args ...any) {
	l.server.options.Log.Info().Str("from", "app").Msgf(format, args...)
}
