package secret

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// sessionLifetime is how long a TLS session can be resumed. After that, both ends must
// prove again that they have the private keys of their certificates.
const sessionLifetime = time.Hour

// maxCacheEntries limits each cache of a Trust, because nodes with new names may appear for
// as long as a process runs.
const maxCacheEntries = 1024

// sessionConfigs holds the TLS configurations of a Trust: one for accepted streams, and one
// for each dialed node. A resumable session belongs to one configuration and ends with it.
// So a session can be resumed only under the Trust under which it began. A new list of
// secrets, or a new process, accepts none of the old sessions.
//
// A resumed session derives fresh keys, and its certificates are verified like those of a
// new one. Resumption saves both ends the signatures and most of the key agreement. A new
// session uses X25519 with ML-KEM, so a recording cannot be decrypted later with a quantum
// computer. A resumed session mixes the keys of that session with a P-256 key agreement
// (RFC 8446, section 7.1), which takes half the time of a resumed handshake with ML-KEM
// (BenchmarkResumed). Every WebSocket that moves to another node needs a handshake.
type sessionConfigs struct {
	mu        sync.Mutex
	createdAt time.Time
	server    *tls.Config
	clients   map[string]*clientSessions
}

// clientSessions holds the state for the streams that this node dials to one other node.
type clientSessions struct {
	sessionSlot
	fullConfig, resumeConfig *tls.Config // for a full handshake, and for resumption
}

// dial returns a TLS client on conn and the session that it attempts to resume, nil if
// there is none.
func (c *clientSessions) dial(conn net.Conn) (*tls.Conn, *tls.ClientSessionState) {
	if last := c.last.Load(); last != nil {
		return tls.Client(conn, c.resumeConfig), last
	}
	return tls.Client(conn, c.fullConfig), nil
}

// notResumedError reports that the peer no longer has the session: it restarted, or the
// session expired. A new session must not depend on P-256 alone, so the caller must dial
// again.
type notResumedError struct{}

func (notResumedError) Error() string {
	return "secret: the other node does not resume the session: dial again"
}

// DialAgain implements the interface that package peer expects of errors of WrapClient.
func (notResumedError) DialAgain() bool { return true }

// serverConfig returns the TLS configuration for accepted streams.
func (t *Trust) serverConfig() *tls.Config {
	x := &t.sessions
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expireLocked(time.Now())
	if x.server == nil {
		x.server = t.config(func(cs tls.ConnectionState) error {
			_, _, err := t.verify(cs, x509.ExtKeyUsageClientAuth)
			return err
		})
		x.server.ClientAuth = tls.RequireAnyClientCert // VerifyConnection verifies the certificate
	}
	return x.server
}

// clientSessions returns the state for streams to the given node.
func (t *Trust) clientSessions(node string) *clientSessions {
	x := &t.sessions
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expireLocked(time.Now())
	if c := x.clients[node]; c != nil {
		return c
	}
	c := new(clientSessions)
	c.fullConfig = t.config(func(cs tls.ConnectionState) error {
		leaf, _, err := t.verify(cs, x509.ExtKeyUsageServerAuth)
		if err != nil {
			return err
		}
		return verifyNodeID(leaf, node)
	})
	// VerifyConnection checks the chain and the node id. The standard verification would
	// compare a host name.
	c.fullConfig.InsecureSkipVerify = true
	c.fullConfig.ClientSessionCache = &c.sessionSlot
	c.resumeConfig = c.fullConfig.Clone()
	c.resumeConfig.ClientSessionCache = pinnedSlot{&c.sessionSlot}
	c.resumeConfig.CurvePreferences = []tls.CurveID{tls.CurveP256}
	if x.clients == nil || len(x.clients) >= maxCacheEntries {
		x.clients = make(map[string]*clientSessions)
	}
	x.clients[node] = c
	return c
}

// expireLocked discards all configurations and with them all sessions after
// sessionLifetime. x.mu must be held.
func (x *sessionConfigs) expireLocked(now time.Time) {
	if now.Sub(x.createdAt) >= sessionLifetime {
		x.createdAt, x.server, x.clients = now, nil, nil
	}
}

// sessionSlot stores the latest session with one node, regardless of the address that was
// dialed.
type sessionSlot struct {
	last atomic.Pointer[tls.ClientSessionState]
}

var _ tls.ClientSessionCache = (*sessionSlot)(nil)

// Get implements tls.ClientSessionCache.
func (s *sessionSlot) Get(string) (*tls.ClientSessionState, bool) {
	last := s.last.Load()
	return last, last != nil
}

// Put implements tls.ClientSessionCache.
func (s *sessionSlot) Put(_ string, last *tls.ClientSessionState) { s.last.Store(last) }

// pinnedSlot is a sessionSlot that keeps its session: a resumed session does not replace
// it, but an invalid session is removed.
type pinnedSlot struct{ *sessionSlot }

// Put implements tls.ClientSessionCache.
func (s pinnedSlot) Put(key string, last *tls.ClientSessionState) {
	if last == nil {
		s.sessionSlot.Put(key, nil)
	}
}

// verifiedCache contains the peer certificates that a Trust has accepted, because every
// stream is verified and the roots do not change. Rejected certificates take no space.
type verifiedCache struct {
	mu     sync.Mutex
	chains map[verifiedKey]verifiedChain
}

type verifiedKey struct {
	leaf  [sha256.Size]byte
	usage x509.ExtKeyUsage
}

// verifiedChain is the root of an accepted certificate and the period in which its entire
// chain is valid.
type verifiedChain struct {
	root        root
	from, until time.Time
}

func (c *verifiedCache) get(key verifiedKey, now time.Time) (root, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, ok := c.chains[key]
	return g.root, ok && !now.Before(g.from) && !now.After(g.until)
}

func (c *verifiedCache) put(key verifiedKey, chain []*x509.Certificate) root {
	g := verifiedChain{root: rootOf(chain[len(chain)-1]), from: chain[0].NotBefore, until: chain[0].NotAfter}
	for _, issuer := range chain[1:] {
		if issuer.NotBefore.After(g.from) {
			g.from = issuer.NotBefore
		}
		if issuer.NotAfter.Before(g.until) {
			g.until = issuer.NotAfter
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chains == nil || len(c.chains) >= maxCacheEntries {
		c.chains = make(map[verifiedKey]verifiedChain)
	}
	c.chains[key] = g
	return g.root
}
