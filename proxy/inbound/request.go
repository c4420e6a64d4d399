package inbound

import (
	"net"

	"shardway/proxy/h1"
)

// Request is a request that a front has accepted, and the means to respond to it. Unless noted
// otherwise, only one goroutine may call its methods.
//
// A front may use a Request again after the pipeline has returned, for the next request.
//
// # Cancellation
//
// A request ends early in two ways. If the client disconnects, the front reports this through
// WatchDisconnect, and reads of the body fail. If the node ends the request, it calls Abort, and
// reads and writes in progress fail. The pipeline never continues a response after a write error.
type Request interface {
	Aborter
	Watchable

	// ReadRequest waits for the header of the request, validates it and stores it in req. After that,
	// req.Body reads the body. io.EOF means that the front has no further request. An *h1.Error
	// contains the status of the response to an invalid request.
	ReadRequest(req *h1.Request) error
	// StopRead makes current and future reads of the body return h1.ErrStopped. Any goroutine may call
	// it. It cannot be undone: the rest of the body is lost.
	StopRead()

	// WriteResponseHeader begins a response, final or interim (1xx), with the header of res and the
	// changes of edit. It returns the Writer for the body. It sends nothing: the header is sent
	// together with the first part of the body, by Flush or by Close of the Writer. The pipeline calls
	// Close exactly once for a complete response, and Abort for a truncated one. A front for another
	// protocol ignores edit.Close, edit.KeepAlive and edit.Upgrade, and drops hop-by-hop fields.
	WriteResponseHeader(res *h1.Response, edit *h1.Edit) *h1.Writer
	// WriteLocal sends a complete response of the node itself. lines contains header lines, each with
	// its CRLF, but no Content-Length. For an interim response (1xx), body is empty. If keepAlive is
	// false, no further request may follow on an HTTP/1 connection. A response to HEAD gets no body.
	// After an error, the request must be aborted.
	WriteLocal(status int, lines, body []byte, keepAlive bool) error
	// Writer returns the Writer of the current response. Before a response has begun, it contains
	// no data, and its Err returns the error of an earlier write.
	Writer() *h1.Writer

	// Received returns the number of bytes that the front has received so far. Only differences matter.
	// The caller must not read the body at the same time.
	Received() int64
	// Sent returns the number of bytes that the front has sent so far. Only differences matter. If Sent
	// has not changed during an attempt, the client has received no byte of the response, and the
	// request can be retried.
	Sent() int64
	// BufferSize returns the size in bytes of the buffers that the request currently uses.
	BufferSize() int
	// ReleaseEmptyBuffers releases the buffers that contain no unread or unsent bytes. The pipeline
	// calls it before a long wait.
	ReleaseEmptyBuffers()
	// Addrs returns the local and the remote address of the connection. Any goroutine may call it.
	Addrs() (local, remote net.Addr)
}

// Aborter is a message exchange that can be ended from another goroutine. h1.Conn implements it for
// connections to apps and to other nodes.
type Aborter interface {
	// Abort ends the exchange so that a truncated message does not look complete. Reads and writes in
	// progress fail. Any goroutine may call it, more than once.
	Abort() error
}

// Watchable reports a disconnect of the client while no goroutine reads the body.
type Watchable interface {
	// WatchDisconnect calls gone once, from another goroutine, if the client disconnects or cancels
	// the request before StopWatch. gone must not block, and must not call StopWatch. No goroutine may
	// read the body before StopWatch.
	WatchDisconnect(gone func())
	// StopWatch ends the watch and waits until it has ended. gone is not called after that. StopWatch
	// reports whether the client has disconnected.
	StopWatch() bool
}

// Upgrader is an optional capability of a Request: the request may switch to another protocol, such as
// WebSocket, with a 101 response. Only HTTP/1 has it. The header of any other Request must not contain
// Upgrade.
type Upgrader interface {
	// UpgradeConn returns the connection that both sides use after the 101 response. It carries no
	// further request.
	UpgradeConn() *h1.Conn
}
