package process

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/secret"
)

// site is a group of nodes with the same certificate, and a client with a session cache.
type site struct {
	*testing.T
	cert, key string
	sessions  tls.ClientSessionCache
	now       time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{
		T: t, cert: filepath.Join(dir, "c.pem"), key: filepath.Join(dir, "k.pem"),
		sessions: tls.NewLRUClientSessionCache(0), now: time.Now(),
	}
	writePair(t, s.cert, s.key, 1)
	return s
}

// node adds a node. Without secrets it has no shared tickets.
func (s *site) node(secrets ...secret.Secret) *tlsListener {
	s.Helper()
	cert, err := readCertificate(s.cert, s.key)
	if err != nil {
		s.Fatal(err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(s.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = ln.Close() })
	tl := newTLSListener(ln, cert, zerolog.Nop())
	tl.now = func() time.Time { return s.now }
	if len(secrets) > 0 {
		tl.shareTickets(secrets)
	}
	return tl
}

// visit connects the client to a node and reports whether it resumed a session.
func (s *site) visit(tl *tlsListener, version uint16) bool {
	s.Helper()
	var served sync.WaitGroup
	defer served.Wait()
	served.Go(func() {
		conn, err := tl.Accept()
		if err != nil {
			s.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Write([]byte("x")) // the client reads its ticket together with this data
		_, _ = conn.Read(make([]byte, 1))
	})
	c, err := tls.Dial("tcp", tl.Addr().String(), &tls.Config{
		InsecureSkipVerify: true, ServerName: "site", ClientSessionCache: s.sessions, MaxVersion: version,
	})
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Read(make([]byte, 1)); err != nil {
		s.Fatal(err)
	}
	if got := c.ConnectionState().Version; got != version {
		s.Fatalf("TLS %x, want %x", got, version)
	}
	return c.ConnectionState().DidResume
}

func (s *site) expect(tl *tlsListener, version uint16, want bool, what string) {
	s.Helper()
	if got := s.visit(tl, version); got != want {
		s.Errorf("%s: resumed = %v, want %v", what, got, want)
	}
}

func TestTLSSessionResumesAtAnotherNode(t *testing.T) {
	s := newSite(t)
	old, fresh, last := secret.Generate(time.Now()), secret.Generate(time.Now()), secret.Generate(time.Now())
	a, b := s.node(old), s.node(old)
	s.expect(a, tls.VersionTLS13, false, "first visit")
	s.expect(b, tls.VersionTLS13, true, "at another node")
	b.shareTickets(secret.List{old, fresh})
	s.expect(b, tls.VersionTLS13, true, "the new secret is accepted")
	b.shareTickets(secret.List{fresh, old})
	s.expect(b, tls.VersionTLS13, true, "the new secret is used, the old one still accepted")
	a.shareTickets(secret.List{old, fresh})
	s.expect(a, tls.VersionTLS13, true, "at a node where the rotation is not as far")
	a.shareTickets(secret.List{fresh})
	s.expect(a, tls.VersionTLS13, false, "with a ticket of the old secret, which is not accepted any more")
	s.expect(a, tls.VersionTLS13, true, "with one of the new secret")
	a.shareTickets(secret.List{last})
	s.expect(a, tls.VersionTLS13, false, "after the secret was replaced again")
}

func TestTicketExpiresAfterTwoDays(t *testing.T) {
	s := newSite(t)
	shared := secret.Generate(time.Now())
	a, b := s.node(shared), s.node(shared)
	s.now = time.Unix(secret.TicketDayOf(time.Now())*int64(secret.TicketDay/time.Second), 0)
	s.expect(a, tls.VersionTLS13, false, "first visit")
	first := s.sessions
	s.now = s.now.Add(2*secret.TicketDay - time.Second)
	s.sessions = copySession(first)
	s.expect(b, tls.VersionTLS13, true, "at the end of the next day")
	s.now = s.now.Add(time.Second)
	s.sessions = copySession(first)
	s.expect(b, tls.VersionTLS13, false, "on the day after that")
}

// copySession returns a cache with the session of another cache, so that the other cache keeps it.
func copySession(from tls.ClientSessionCache) tls.ClientSessionCache {
	to := tls.NewLRUClientSessionCache(0)
	if session, ok := from.Get("site"); ok {
		to.Put("site", session)
		from.Put("site", session)
	}
	return to
}

func TestTLS12SessionResumesOnlyAtItsNode(t *testing.T) {
	s := newSite(t)
	shared := secret.Generate(time.Now())
	a, b := s.node(shared), s.node(shared)
	s.expect(a, tls.VersionTLS12, false, "first visit")
	s.expect(a, tls.VersionTLS12, true, "at the same node")
	s.expect(b, tls.VersionTLS12, false, "at another node, which the secret must not let read it")
}

func TestSessionResumesOnlyAtItsNodeWithoutSecret(t *testing.T) {
	s := newSite(t)
	a, b := s.node(), s.node()
	s.expect(a, tls.VersionTLS13, false, "first visit")
	s.expect(a, tls.VersionTLS13, true, "at the same node")
	s.expect(b, tls.VersionTLS13, false, "at another one")
}

func TestCertificatesWithDifferentNamesShareNoTickets(t *testing.T) {
	s := newSite(t)
	shared := secret.Generate(time.Now())
	a, b := s.node(shared), s.node(shared)
	b.cert.Load().tickets.namesHash = [32]byte{1}
	s.expect(a, tls.VersionTLS13, false, "first visit")
	s.expect(b, tls.VersionTLS13, false, "at a node with a certificate for another name")
}
