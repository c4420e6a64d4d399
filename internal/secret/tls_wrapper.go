package secret

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ALPN is the name of the protocol between nodes. It prevents a connection to a server that
// has a certificate of the same authority but speaks another protocol.
const ALPN = "shardway/1"

// Grace is how long a stream stays open after the authority of its peer is no longer
// accepted, so that running requests can finish.
const Grace = 30 * time.Second

// TLSWrapper adds TLS to the streams between nodes. Its methods Client and Server have the
// signatures that peer.Options requires. It is safe for concurrent use.
type TLSWrapper struct {
	trust atomic.Pointer[Trust]
	grace time.Duration

	mu struct {
		sync.Mutex
		open map[*Conn]struct{}
	}
}

// NewTLSWrapper returns a TLSWrapper that uses the given trust.
func NewTLSWrapper(trust *Trust) *TLSWrapper {
	w := &TLSWrapper{grace: Grace}
	w.trust.Store(trust)
	w.mu.open = make(map[*Conn]struct{})
	return w
}

// Replace makes new streams use the given trust. Open streams whose peer was verified by an
// authority that trust does not accept are closed after Grace, unless the authority is accepted
// again by then.
func (w *TLSWrapper) Replace(trust *Trust) {
	w.trust.Store(trust)
	if len(w.untrusted()) > 0 {
		// Each replacement starts a timer. The function decides which streams to close when it
		// runs.
		time.AfterFunc(w.grace, w.closeUntrusted)
	}
}

// untrusted returns the open streams whose authority is no longer accepted.
func (w *TLSWrapper) untrusted() []*Conn {
	trust := w.trust.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	var conns []*Conn
	for conn := range w.mu.open {
		if !trust.accepted[conn.root] {
			conns = append(conns, conn)
		}
	}
	return conns
}

func (w *TLSWrapper) closeUntrusted() {
	for _, conn := range w.untrusted() {
		_ = conn.Close()
	}
}

// Client performs the handshake as the dialer and accepts only the given node: it rejects
// any other certificate before it sends data. If the error has a method DialAgain that
// returns true, the peer no longer had the session, and the next attempt uses a new one.
func (w *TLSWrapper) Client(ctx context.Context, conn net.Conn, node string) (net.Conn, error) {
	trust := w.trust.Load()
	sessions := trust.clientSessions(node)
	tlsConn, session := sessions.dial(conn)
	c, err := w.handshake(ctx, trust, conn, tlsConn, x509.ExtKeyUsageServerAuth)
	switch {
	case err != nil:
		return nil, err
	case session != nil && !tlsConn.ConnectionState().DidResume:
		sessions.last.CompareAndSwap(session, nil)
		w.unregister(c)
		return nil, notResumedError{}
	}
	return c, nil
}

// Server performs the handshake as the accepting side. Conn.VerifyNode tests which node the peer
// is.
func (w *TLSWrapper) Server(ctx context.Context, conn net.Conn) (net.Conn, error) {
	trust := w.trust.Load()
	c, err := w.handshake(ctx, trust, conn, tls.Server(conn, trust.serverConfig()), x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// config returns the settings that both sides have in common.
func (t *Trust) config(verify func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{t.cert},
		NextProtos:   []string{ALPN},
		Time:         t.now,
		// TLS calls VerifyConnection in every handshake, also for a resumed session.
		VerifyConnection: verify,
		// Nodes are close to each other: use full-size records from the start.
		DynamicRecordSizingDisabled: true,
	}
}

// handshake completes the TLS handshake and registers the stream.
func (w *TLSWrapper) handshake(ctx context.Context, trust *Trust, raw net.Conn, tlsConn *tls.Conn, usage x509.ExtKeyUsage) (*Conn, error) {
	if err := tlsConn.HandshakeContext(ctx); err != nil {
		return nil, explainAlert(err)
	}
	// The handshake has filled the cache of verified certificates. This second check also
	// rejects a handshake that skipped VerifyConnection.
	leaf, issuer, err := trust.verify(tlsConn.ConnectionState(), usage)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: tlsConn, raw: raw, wrapper: w, leaf: leaf, root: issuer}
	if !w.register(c) {
		return nil, errors.New("secret: the authority of the other node was retired during the handshake")
	}
	return c, nil
}

// register adds conn to the open streams. It returns false if the authority of conn is no longer
// accepted. That happens if the handshake began before a call of Replace and ended after it, so
// that Replace did not find the stream. The mutex makes sure that either register sees the new
// Trust or untrusted sees the stream.
func (w *TLSWrapper) register(conn *Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.trust.Load().accepted[conn.root] {
		return false
	}
	w.mu.open[conn] = struct{}{}
	return true
}

func (w *TLSWrapper) unregister(conn *Conn) {
	w.mu.Lock()
	delete(w.mu.open, conn)
	w.mu.Unlock()
}
