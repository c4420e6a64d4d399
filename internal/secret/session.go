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

// sessionConfigs holds the TLS configurations of a Trust: one for accepted streams, and one for
// each dialed node. A resumable session belongs to one configuration and ends with it, so a session
// can be resumed only under the Trust under which it began. A new list of secrets, or a new
// process, accepts none of the old sessions.
//
// A resumed session derives fresh keys, and its certificates are verified like those of a new one.
// Resumption saves both ends the signatures and most of the key agreement. A new session uses
// X25519 with ML-KEM, so a recording cannot be decrypted later with a quantum computer. A resumed
// session mixes the keys of that session with a P-256 key agreement (RFC 8446, section 7.1), which
// takes half the time of a resumed handshake with ML-KEM (BenchmarkResumed). This matters because
// every WebSocket that moves to another node needs a handshake.
type sessionConfigs struct {
	// mu protects the following fields.
	mu        sync.Mutex
	createdAt time.Time                  // start of the current sessionLifetime
	server    *tls.Config                // for accepted streams; nil means not created yet
	clients   map[string]*clientSessions // for dialed streams, by node
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
	sessions := &t.sessions
	sessions.mu.Lock()
	defer sessions.mu.Unlock()
	sessions.expireLocked(time.Now())
	if sessions.server == nil {
		sessions.server = t.config(func(cs tls.ConnectionState) error {
			_, _, err := t.verify(cs, x509.ExtKeyUsageClientAuth)
			return err
		})
		sessions.server.ClientAuth = tls.RequireAnyClientCert // VerifyConnection verifies the certificate
	}
	return sessions.server
}

// clientSessions returns the state for streams to the given node.
func (t *Trust) clientSessions(node string) *clientSessions {
	sessions := &t.sessions
	sessions.mu.Lock()
	defer sessions.mu.Unlock()
	sessions.expireLocked(time.Now())
	if client := sessions.clients[node]; client != nil {
		return client
	}
	client := new(clientSessions)
	client.fullConfig = t.config(func(cs tls.ConnectionState) error {
		leaf, _, err := t.verify(cs, x509.ExtKeyUsageServerAuth)
		if err != nil {
			return err
		}
		return verifyNodeID(leaf, node)
	})
	// VerifyConnection checks the chain and the node id. The standard verification would
	// compare a host name.
	client.fullConfig.InsecureSkipVerify = true
	client.fullConfig.ClientSessionCache = &client.sessionSlot
	client.resumeConfig = client.fullConfig.Clone()
	client.resumeConfig.ClientSessionCache = pinnedSlot{&client.sessionSlot}
	client.resumeConfig.CurvePreferences = []tls.CurveID{tls.CurveP256}
	if sessions.clients == nil || len(sessions.clients) >= maxCacheEntries {
		sessions.clients = make(map[string]*clientSessions)
	}
	sessions.clients[node] = client
	return client
}

// expireLocked discards all configurations and with them all sessions after sessionLifetime. sc.mu
// must be held.
func (sc *sessionConfigs) expireLocked(now time.Time) {
	if now.Sub(sc.createdAt) >= sessionLifetime {
		sc.createdAt, sc.server, sc.clients = now, nil, nil
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

// verifiedCache contains the peer certificates that a Trust has accepted. Each new stream of a peer is verified, so the
// same certificate comes again and again. A cached result stays correct, because the roots of a Trust do not change.
// Rejected certificates are not stored, so that a stranger cannot fill the cache.
type verifiedCache struct {
	mu     sync.Mutex
	chains map[verifiedCacheKey]verifiedChain
}

type verifiedCacheKey struct {
	leaf  [sha256.Size]byte
	usage x509.ExtKeyUsage
}

// verifiedChain is the root of an accepted certificate and the period in which its entire
// chain is valid.
type verifiedChain struct {
	root        rootFingerprint
	from, until time.Time
}

func (c *verifiedCache) get(key verifiedCacheKey, now time.Time) (rootFingerprint, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, ok := c.chains[key]
	return cached.root, ok && !now.Before(cached.from) && !now.After(cached.until)
}

// put stores that a chain was verified, and returns the fingerprint of its root. The result is valid as long as all
// certificates of the chain. If the cache is full, all earlier results are discarded first.
func (c *verifiedCache) put(key verifiedCacheKey, chain []*x509.Certificate) rootFingerprint {
	verified := verifiedChain{root: rootOf(chain[len(chain)-1]), from: chain[0].NotBefore, until: chain[0].NotAfter}
	for _, issuer := range chain[1:] {
		if issuer.NotBefore.After(verified.from) {
			verified.from = issuer.NotBefore
		}
		if issuer.NotAfter.Before(verified.until) {
			verified.until = issuer.NotAfter
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chains == nil || len(c.chains) >= maxCacheEntries {
		c.chains = make(map[verifiedCacheKey]verifiedChain)
	}
	c.chains[key] = verified
	return verified.root
}
