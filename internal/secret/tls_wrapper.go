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

// ALPN is the name of the protocol between nodes. It keeps a server that has a
// certificate of the same authority, but speaks something else, from being
// talked to.
const ALPN = "shardway/1"

// Grace is for how long a stream outlives the acceptance of the authority that
// vouched for its other end: what runs on it may finish.
const Grace = 30 * time.Second

// TLSWrapper puts TLS beneath the streams between nodes. Client and Server are made
// for peer.Options. It is safe for any number of goroutines.
type TLSWrapper struct {
	trust atomic.Pointer[Trust]
	grace time.Duration

	mu struct {
		sync.Mutex
		open map[*Conn]struct{}
	}
}

// NewTLSWrapper returns a TLSWrapper that goes by t.
func NewTLSWrapper(t *Trust) *TLSWrapper {
	s := &TLSWrapper{grace: Grace}
	s.trust.Store(t)
	s.mu.open = make(map[*Conn]struct{})
	return s
}

// Replace makes new streams go by t. Streams whose other end was vouched for by
// an authority that t does not accept are closed after Grace, unless they have
// ended by then or it is accepted again.
func (s *TLSWrapper) Replace(t *Trust) {
	s.trust.Store(t)
	if len(s.untrusted()) > 0 {
		// One timer for each replacement; what it finds is decided then.
		time.AfterFunc(s.grace, s.closeUntrusted)
	}
}

// stale returns the open streams that are vouched for by nobody any more.
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

// Client speaks TLS with the node that was dialed, and with no other: anybody
// else's certificate is refused before a byte is sent. An error with a method DialAgain
// that says true is about a session that has ended: the next stream is another one's.
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

// Server speaks TLS with a node that dialed. Which one it is says its
// certificate; see Conn.Vouch.
func (s *TLSWrapper) Server(ctx context.Context, conn net.Conn) (net.Conn, error) {
	t := s.trust.Load()
	c, err := s.handshake(ctx, t, conn, tls.Server(conn, t.serverConfig()), x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// config is what both sides have in common.
func (t *Trust) config(verify func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{t.cert},
		NextProtos:   []string{ALPN},
		Time:         t.now,
		// It is asked in each handshake, also that of a resumed session.
		VerifyConnection: verify,
		// The other end is near: full records from the beginning.
		DynamicRecordSizingDisabled: true,
	}
}

// shake finishes the handshake.
func (s *TLSWrapper) handshake(ctx context.Context, t *Trust, raw net.Conn, tc *tls.Conn, usage x509.ExtKeyUsage) (*Conn, error) {
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, explainAlert(err)
	}
	// What the handshake has found is remembered; one that has asked nothing does not pass.
	leaf, by, err := t.verify(tc.ConnectionState(), usage)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: tc, raw: raw, seal: s, leaf: leaf, root: by}
	if !s.register(c) {
		return nil, errors.New("secret: what vouches for the other node was retired during the handshake")
	}
	return c, nil
}

// enter makes c one of the open streams. It reports false if nobody vouches for
// it any more: its handshake began before a replacement and ended after it, so
// that no replacement would find it. Either this sees the new trust, or stale
// sees the stream.
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
