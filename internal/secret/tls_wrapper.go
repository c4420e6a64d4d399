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

// NewTLSWrapper returns a TLSWrapper that uses t.
func NewTLSWrapper(t *Trust) *TLSWrapper {
	s := &TLSWrapper{grace: Grace}
	s.trust.Store(t)
	s.mu.open = make(map[*Conn]struct{})
	return s
}

// Replace makes new streams use t. Open streams whose peer was verified by an authority
// that t does not accept are closed after Grace, unless the authority is accepted again by
// then.
func (s *TLSWrapper) Replace(t *Trust) {
	s.trust.Store(t)
	if len(s.untrusted()) > 0 {
		// Each replacement starts a timer. The function decides when it runs which streams
		// to close.
		time.AfterFunc(s.grace, s.closeUntrusted)
	}
}

// untrusted returns the open streams whose authority is no longer accepted.
func (s *TLSWrapper) untrusted() []*Conn {
	t := s.trust.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Conn
	for c := range s.mu.open {
		if !t.accepted[c.root] {
			all = append(all, c)
		}
	}
	return all
}

func (s *TLSWrapper) closeUntrusted() {
	for _, c := range s.untrusted() {
		_ = c.Close()
	}
}

// Client performs the handshake as the dialer and accepts only the given node: it rejects
// any other certificate before it sends data. If the error has a method DialAgain that
// returns true, the peer no longer had the session, and the next attempt uses a new one.
func (s *TLSWrapper) Client(ctx context.Context, conn net.Conn, node string) (net.Conn, error) {
	t := s.trust.Load()
	side := t.clientSessions(node)
	tc, session := side.dial(conn)
	c, err := s.handshake(ctx, t, conn, tc, x509.ExtKeyUsageServerAuth)
	switch {
	case err != nil:
		return nil, err
	case session != nil && !tc.ConnectionState().DidResume:
		side.last.CompareAndSwap(session, nil)
		s.unregister(c)
		return nil, notResumedError{}
	}
	return c, nil
}

// Server performs the handshake as the accepting side. Conn.VerifyNode tests which node the peer
// is.
func (s *TLSWrapper) Server(ctx context.Context, conn net.Conn) (net.Conn, error) {
	t := s.trust.Load()
	c, err := s.handshake(ctx, t, conn, tls.Server(conn, t.serverConfig()), x509.ExtKeyUsageClientAuth)
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
func (s *TLSWrapper) handshake(ctx context.Context, t *Trust, raw net.Conn, tc *tls.Conn, usage x509.ExtKeyUsage) (*Conn, error) {
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, explainAlert(err)
	}
	// The handshake has filled the cache of verified certificates. This second check also
	// rejects a handshake that skipped VerifyConnection.
	leaf, by, err := t.verify(tc.ConnectionState(), usage)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: tc, raw: raw, seal: s, leaf: leaf, root: by}
	if !s.register(c) {
		return nil, errors.New("secret: the authority of the other node was retired during the handshake")
	}
	return c, nil
}

// register adds c to the open streams. It returns false if the authority of c is no longer
// accepted: the handshake began before a call of Replace and ended after it, so that call
// did not find the stream. The mutex makes sure that either register sees the new Trust or
// untrusted sees the stream.
func (s *TLSWrapper) register(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.trust.Load().accepted[c.root] {
		return false
	}
	s.mu.open[c] = struct{}{}
	return true
}

func (s *TLSWrapper) unregister(c *Conn) {
	s.mu.Lock()
	delete(s.mu.open, c)
	s.mu.Unlock()
}
