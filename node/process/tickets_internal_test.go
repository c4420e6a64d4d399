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

// site is nodes with one certificate and a client that keeps its sessions.
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

// node starts one; without secrets it has none.
func (s *site) node(secrets ...secret.Secret) *front {
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
	f := newFront(ln, cert, zerolog.Nop())
	f.now = func() time.Time { return s.now }
	if len(secrets) > 0 {
		f.share(secrets)
	}
	return f
}

// visit has the client connect to f, and tells whether it resumed a session there.
func (s *site) visit(f *front, version uint16) bool {
	s.Helper()
	var served sync.WaitGroup
	defer served.Wait()
	served.Go(func() {
		conn, err := f.Accept()
		if err != nil {
			s.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Write([]byte("x")) // with it the client reads its ticket
		_, _ = conn.Read(make([]byte, 1))
	})
	c, err := tls.Dial("tcp", f.Addr().String(), &tls.Config{
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

func (s *site) expect(f *front, version uint16, want bool, what string) {
	s.Helper()
	if got := s.visit(f, version); got != want {
		s.Errorf("%s: resumed = %v, want %v", what, got, want)
	}
}

func TestClientResumesAtAnotherNode(t *testing.T) {
	s := newSite(t)
	old, fresh, last := secret.Generate(time.Now()), secret.Generate(time.Now()), secret.Generate(time.Now())
	a, b := s.node(old), s.node(old)
	s.expect(a, tls.VersionTLS13, false, "first visit")
	s.expect(b, tls.VersionTLS13, true, "at another node")
	b.share(secret.List{old, fresh})
	s.expect(b, tls.VersionTLS13, true, "the new secret is accepted")
	b.share(secret.List{fresh, old})
	s.expect(b, tls.VersionTLS13, true, "the new secret is used, the old one still accepted")
	a.share(secret.List{old, fresh})
	s.expect(a, tls.VersionTLS13, true, "at a node where the rotation is not as far")
	a.share(secret.List{fresh})
	s.expect(a, tls.VersionTLS13, false, "with a ticket of the old secret, which is not accepted any more")
	s.expect(a, tls.VersionTLS13, true, "with one of the new secret")
	a.share(secret.List{last})
	s.expect(a, tls.VersionTLS13, false, "after the secret was replaced again")
}

func TestTicketIsGoodForADayOrTwo(t *testing.T) {
	s := newSite(t)
	shared := secret.Generate(time.Now())
	a, b := s.node(shared), s.node(shared)
	s.now = time.Unix(secret.TicketDayOf(time.Now())*int64(secret.TicketDay/time.Second), 0)
	s.expect(a, tls.VersionTLS13, false, "first visit")
	first := s.sessions
	s.now = s.now.Add(2*secret.TicketDay - time.Second)
	s.sessions = again(first)
	s.expect(b, tls.VersionTLS13, true, "at the end of the next day")
	s.now = s.now.Add(time.Second)
	s.sessions = again(first)
	s.expect(b, tls.VersionTLS13, false, "on the day after that")
}

// again returns a cache with the session that another has, so that this one keeps it.
func again(from tls.ClientSessionCache) tls.ClientSessionCache {
	to := tls.NewLRUClientSessionCache(0)
	if session, ok := from.Get("site"); ok {
		to.Put("site", session)
		from.Put("site", session)
	}
	return to
}

func TestOldTLSResumesAtItsOwnNodeOnly(t *testing.T) {
	s := newSite(t)
	shared := secret.Generate(time.Now())
	a, b := s.node(shared), s.node(shared)
	s.expect(a, tls.VersionTLS12, false, "first visit")
	s.expect(a, tls.VersionTLS12, true, "at the same node")
	s.expect(b, tls.VersionTLS12, false, "at another node, which the secret must not let read it")
}

func TestWithoutSecretClientsResumeAtTheirNode(t *testing.T) {
	s := newSite(t)
	a, b := s.node(), s.node()
	s.expect(a, tls.VersionTLS13, false, "first visit")
	s.expect(a, tls.VersionTLS13, true, "at the same node")
	s.expect(b, tls.VersionTLS13, false, "at another one")
}

func TestCertificatesForOtherNamesShareNoTickets(t *testing.T) {
	s := newSite(t)
	shared := secret.Generate(time.Now())
	a, b := s.node(shared), s.node(shared)
	b.cert.Load().keys.goodFor = [32]byte{1}
	s.expect(a, tls.VersionTLS13, false, "first visit")
	s.expect(b, tls.VersionTLS13, false, "at a node with a certificate for another name")
}
