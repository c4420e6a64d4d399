package inproc

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
	"shardway/proxy/inbound"
)

// Conn passes one request at a time to an app inside this process. To package proxy it is like any
// other connection to the app: it belongs to a pool, is used by a run, and is closed by a
// cancellation. To fasthttp it is a connection from which a Server reads one validated request
// header. The Server calls handle on the goroutine of the client's connection. Its output after
// that is discarded, because handle has already sent the response.
//
// Each Conn has its own Server, because RequestCtx.Done reports the end of the Server. Close ends the
// Server, so that a cancellation affects only the handler of this request.
type Conn struct {
	app          *App
	fasthttpConn fasthttpConn

	// Present request. These fields belong to the goroutine of its connection.

	call      Call
	runNumber uint32 // number of the run
	result    Result // result of the request so far
	answered  bool   // handle has sent the response, so the output of fasthttp is discarded

	// Buffers and bodies.

	unreadHeader   []byte             // request header for fasthttp to read
	body           requestBody        // the request body for a handler that accepts streams
	bodyBuf        []byte             // a request body that the handler receives as a whole
	responseHeader []byte             // header of the response
	emptyResponse  *fasthttp.Response // an unused Response, to reset the Response of the RequestCtx

	// End of the request.

	unusable bool        // the pool must discard the connection
	closed   atomic.Bool // set at the start of Close. If a stream ends later, it was cancelled.
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

// headerBufferSize is the size in bytes of the request header buffer. A longer header needs a new
// Server.
const headerBufferSize = 8 << 10

// NewConn returns a connection to app.
func NewConn(app *App) *Conn {
	conn := &Conn{app: app}
	conn.fasthttpConn.Conn, conn.body.conn = conn, conn
	conn.mu.server = conn.newServer(headerBufferSize)
	return conn
}

// newServer returns a Server for headers of up to maxHeader bytes. It calls Serve once, because Serve
// creates the channel that Close closes.
func (conn *Conn) newServer(maxHeader int) *fasthttp.Server {
	server := &fasthttp.Server{
		Handler: conn.handle, ErrorHandler: func(*fasthttp.RequestCtx, error) {}, Logger: appLog{conn.app},
		ReadBufferSize: maxHeader, WriteBufferSize: 512, Concurrency: 16, DisableKeepalive: true,
		NoDefaultServerHeader: true, NoDefaultDate: true, SecureErrorLogMessage: true,
		MaxIdleWorkerDuration: time.Millisecond, // how long the goroutine of Serve runs before it ends
	}
	_ = server.Serve(noListener{}) // returns immediately
	return server
}

// serveFastHTTP makes fasthttp read the header and call handle.
func (conn *Conn) serveFastHTTP(header []byte) {
	conn.mu.Lock()
	if len(header) > headerBufferSize {
		conn.mu.server, conn.unusable = conn.newServer(len(header)), true
	}
	server := conn.mu.server
	conn.mu.Unlock()
	conn.unreadHeader = header
	_ = server.ServeConn(&conn.fasthttpConn) // handle has already handled any error
}

// fasthttpConn is the Conn as fasthttp uses it. Its Close does nothing, because fasthttp closes each connection after it has served it.
type fasthttpConn struct{ *Conn }

// Close does nothing.
func (*fasthttpConn) Close() error { return nil }

// Read gives fasthttp the header, and then io.EOF.
func (conn *Conn) Read(p []byte) (int, error) {
	if len(conn.unreadHeader) == 0 {
		return 0, io.EOF
	}
	n := copy(p, conn.unreadHeader)
	conn.unreadHeader = conn.unreadHeader[n:]
	return n, nil
}

// Write discards the output of fasthttp after handle has sent the response. Before that it returns
// an error, because only the proxy's own Writer may send the response.
func (conn *Conn) Write(p []byte) (int, error) {
	if !conn.answered {
		return 0, errDirectWrite
	}
	return len(p), nil
}

// Close cancels the request of the handler. It ends RequestCtx.Done and the stream that the handler
// writes, and makes reads of the request body fail. It does not wait for the handler.
func (conn *Conn) Close() error {
	if conn.closed.Swap(true) {
		return nil
	}
	conn.mu.Lock()
	stream, client, server := conn.mu.stream, conn.mu.client, conn.mu.server
	conn.mu.Unlock()
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
func (conn *Conn) setStream(stream io.Closer) {
	conn.mu.Lock()
	conn.mu.stream = stream
	conn.mu.Unlock()
	if stream != nil && conn.closed.Load() {
		_ = stream.Close()
	}
}

// setBodySource sets the client connection from which the body is being read, so that Close can
// interrupt the reading; nil means none. If Close has already been called, setBodySource interrupts
// the reading.
func (conn *Conn) setBodySource(client inbound.Request) {
	conn.mu.Lock()
	conn.mu.client = client
	conn.mu.Unlock()
	if client != nil && conn.closed.Load() {
		client.StopRead()
	}
}

// LocalAddr returns the local address of the connection of the client.
func (conn *Conn) LocalAddr() net.Addr {
	if conn.call.Client == nil {
		return noAddr()
	}
	local, _ := conn.call.Client.Addrs()
	return local
}

// RemoteAddr returns the address of the client, even for a request that another node has forwarded.
func (conn *Conn) RemoteAddr() net.Addr {
	if saved := conn.savedRemoteAddr.Load(); saved != nil {
		return *saved
	}
	switch call := &conn.call; {
	case call.Client == nil:
		return noAddr()
	case !call.IsForwarded:
		_, remote := call.Client.Addrs()
		return remote
	}
	// The ingress sets X-Forwarded-For. The last element is the address of its client.
	forwardedFor := conn.call.Request.Known(h1.FieldXForwardedFor)
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
func (conn *Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing, like SetDeadline.
func (conn *Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, like SetDeadline.
func (conn *Conn) SetWriteDeadline(time.Time) error { return nil }

// noListener is a listener without connections.
type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, io.EOF }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return noAddr() }

// appLog logs what handlers log through their RequestCtx.
type appLog struct{ app *App }

// Printf implements fasthttp.Logger.
func (l appLog) Printf(format string, args ...any) {
	l.app.Log.Info().Str("from", "app").Msgf(format, args...)
}
