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

// sessionLifetime is for how long a session may be resumed. Then both ends show resumeConfig that
// they have the keys of their certificates.
const sessionLifetime = time.Hour

// maxCacheEntries bounds what a Trust remembers of each kind: nodes of other names may come and
// go for as long as a process runs.
const maxCacheEntries = 1024

// sessions are the TLS configurations of a Trust: of the server's side, and for each node
// that it dials. What may be resumed belongs to one of them and ends with it, so a session
// is good at the Trust only that it began at: what vouched for its ends is accepted there,
// and a list of secrets, or a process, that takes its place knows nothing of it.
//
// A resumed session agrees on keys of its own, and its certificates are judged as those of
// a new one. What it saves both ends are the signatures, and most of the key agreement: a new
// session is by X25519 and ML-KEM, which nobody opens who has recorded it and will have a
// quantum computer, and what is resumed goes into the keys of one that is by P-256 alone (RFC
// 8446, section 7.1): half of what a resumed handshake took both ends (BenchmarkResumed). Each
// WebSocket that comes to another node takes one.
type sessionConfigs struct {
	mu        sync.Mutex
	createdAt time.Time
	server    *tls.Config
	clients   map[string]*clientSessions
}

// client is this node's side of the streams to another one.
type clientSessions struct {
	sessionSlot
	fullConfig, resumeConfig *tls.Config // without and with a session
}

// dial returns the next stream, on conn, and the session that it is to resume, if any.
func (c *clientSessions) dial(conn net.Conn) (*tls.Conn, *tls.ClientSessionState) {
	if last := c.last.Load(); last != nil {
		return tls.Client(conn, c.resumeConfig), last
	}
	return tls.Client(conn, c.fullConfig), nil
}

// notResumedError says that the other end does not know a session any more: it has begun
// anew, or its hour is over. P-256 is not enough then, so the stream is dialed resumeConfig.
type notResumedError struct{}

func (notResumedError) Error() string {
	return "secret: the other node does not resume the session: dial again"
}

// DialAgain implements what package peer asks of errors of WrapClient.
func (notResumedError) DialAgain() bool { return true }

// serverSide returns the configuration of this node's side of a stream that it accepts.
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
		x.server.ClientAuth = tls.RequireAnyClientCert // verified above
	}
	return x.server
}

// clientSide returns this node's side of the streams that it dials.
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
	// Chain and name are verified above, by node id: what the library would look for is a
	// host name.
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

// renew ends what may be resumed once it is old. With mu held.
func (x *sessionConfigs) expireLocked(now time.Time) {
	if now.Sub(x.createdAt) >= sessionLifetime {
		x.createdAt, x.server, x.clients = now, nil, nil
	}
}

// session is the one with a node, under whatever address that is dialed.
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

// resumed is a session that stays the one that it is; or ends.
type pinnedSlot struct{ *sessionSlot }

// Put implements tls.ClientSessionCache.
func (s pinnedSlot) Put(key string, last *tls.ClientSessionState) {
	if last == nil {
		s.sessionSlot.Put(key, nil)
	}
}

// judged remembers which certificates a Trust has found good: that is asked with each
// stream, and its roots do not change. Nobody else's takes room here.
type verifiedCache struct {
	mu     sync.Mutex
	chains map[verifiedKey]verifiedChain
}

type verifiedKey struct {
	leaf  [sha256.Size]byte
	usage x509.ExtKeyUsage
}

// verifiedChain is who vouches for a certificate, and for as long as all of that chain is valid.
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
