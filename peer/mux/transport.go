package mux

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"shardway/internal/rawio"
)

// recordInterceptor is a connection below TLS that can redirect what TLS writes, so that
// encrypting never blocks on the socket.
type recordInterceptor interface {
	// Divert passes all further writes to the function to, and returns a writer for the socket. No
	// write may be in progress.
	Divert(to func(b []byte)) (direct io.Writer)
}

// transport writes to the connection of a session. It separates encryption, which never blocks,
// from writing to the socket, which can be tried without blocking.
//
// Only the goroutine that has the write turn calls encrypt and trySend, and writes to recordWriter.
type transport struct {
	socket        syscall.RawConn // the socket; nil means there is none
	conn          net.Conn        // the connection of the session
	recordWriter  io.Writer       // writes what encrypt has returned
	plaintext     bool            // encrypt returns its argument
	interceptsTLS bool            // encrypt returns the TLS records that conn has written

	encryptingFrames atomic.Bool // conn writes the records of encrypt, not TLS replies

	// mu protects the following fields. The reading goroutine also uses them: reading may make TLS
	// reply to the peer.
	mu            sync.Mutex
	records       []byte // intercepted records
	replyBytes    int    // bytes of records that are TLS replies
	lastEncrypted []byte // last result of encrypt; its buffer is reused

	// Arguments and results of sendFunc.
	pending  []byte // data to send
	sent     int    // bytes of pending that the socket has accepted
	err      error
	sendFunc func(fd uintptr) bool // sendToFD, allocated once
}

// newTransport returns the transport of a connection.
func newTransport(conn net.Conn) *transport {
	tr := &transport{conn: conn, recordWriter: conn}
	tr.sendFunc = tr.sendToFD
	socket := innermostConn(conn)
	if sc, ok := socket.(syscall.Conn); ok {
		tr.socket, _ = sc.SyscallConn() // nil on error
	}
	tr.plaintext = rawio.IsDirect(conn) || conn == socket
	if tr.plaintext {
		return tr
	}
	interceptor, ok := socket.(recordInterceptor)
	if ok && tr.socket != nil && canTrySend {
		tr.recordWriter = interceptor.Divert(tr.intercept)
		tr.interceptsTLS = true
	}
	return tr
}

// innermostConn unwraps conn, such as a tls.Conn, down to the innermost connection.
func innermostConn(conn net.Conn) net.Conn {
	for {
		wrapper, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = wrapper.NetConn()
	}
}

// canTrySend reports whether trySend works on this connection.
func (tr *transport) canTrySend() bool {
	return canTrySend && tr.socket != nil && (tr.plaintext || tr.interceptsTLS)
}

// encrypt returns b as it is written to the socket, valid until the next call. It does not block.
func (tr *transport) encrypt(b []byte) ([]byte, error) {
	if !tr.interceptsTLS {
		return b, nil
	}
	if len(b) > 0 {
		tr.encryptingFrames.Store(true)
		_, err := tr.conn.Write(b)
		tr.encryptingFrames.Store(false)
		if err != nil {
			return nil, err
		}
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.replyBytes = 0
	tr.records, tr.lastEncrypted = tr.lastEncrypted[:0], tr.records
	return tr.lastEncrypted, nil
}

// intercept stores records that TLS writes.
func (tr *transport) intercept(b []byte) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.records = append(tr.records, b...)
	if !tr.encryptingFrames.Load() {
		tr.replyBytes += len(b)
	}
}

// hasReplies reports whether TLS has written records on its own, such as a reply to a key update
// of the peer.
func (tr *transport) hasReplies() bool { return tr.interceptsTLS && tr.queuedReplyBytes() > 0 }

// queuedReplyBytes returns the length in bytes of the records that TLS has written on its own.
func (tr *transport) queuedReplyBytes() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.replyBytes
}

// shrink releases large buffers.
func (tr *transport) shrink() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if cap(tr.lastEncrypted) > maxRetainedQueue {
		tr.lastEncrypted = nil
	}
	if cap(tr.records) > maxRetainedQueue {
		tr.records = append([]byte(nil), tr.records...)
	}
}

// trySend writes as much of b, a result of encrypt, as the socket accepts without blocking.
func (tr *transport) trySend(b []byte) (n int, err error) {
	tr.pending, tr.sent, tr.err = b, 0, nil
	err = tr.socket.Write(tr.sendFunc)
	if err == nil {
		err = tr.err
	}
	tr.pending = nil
	return tr.sent, err
}
