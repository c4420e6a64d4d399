package secret_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/secret"
	"shardway/internal/simnet"
)

// connectSim is connect over a simulated network, for use in a synctest bubble.
func connectSim(t *testing.T, client, server wrapFunc) (c, s net.Conn, clientErr, serverErr error) {
	t.Helper()
	return withRedial(func() (c, s net.Conn, clientErr, serverErr error) { return connectSimOnce(t, client, server) })
}

func connectSimOnce(t *testing.T, client, server wrapFunc) (c, s net.Conn, clientErr, serverErr error) {
	t.Helper()
	h := simnet.New(simnet.Config{}).Host("a")
	ln, err := h.Listen(":1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var raw net.Conn
		if raw, serverErr = ln.Accept(); serverErr != nil {
			return
		}
		if s, serverErr = server(ctx, raw); serverErr == nil {
			serverErr = exchangeByte(s)
		}
		if serverErr != nil {
			_ = raw.Close()
		}
	}()
	raw, err := h.Dial(ctx, h.Addr(1))
	if err != nil {
		t.Fatal(err)
	}
	if c, clientErr = client(ctx, raw); clientErr == nil {
		clientErr = exchangeByte(c)
	}
	if clientErr != nil {
		_ = raw.Close()
	}
	<-done
	return c, s, clientErr, serverErr
}

// wantConnected connects two nodes and checks whether they resumed a session.
func wantConnected(t *testing.T, client, server wrapFunc, resumed bool) {
	t.Helper()
	c, s, clientErr, serverErr := connectSim(t, client, server)
	if clientErr != nil || serverErr != nil {
		t.Fatalf("client %v, server %v", clientErr, serverErr)
	}
	if got := secretConn(t, c).ConnectionState().DidResume; got != resumed {
		t.Errorf("the client resumed a session = %v, want %v", got, resumed)
	}
	if got := secretConn(t, s).ConnectionState().DidResume; got != resumed {
		t.Errorf("the server resumed a session = %v, want %v", got, resumed)
	}
	if err := secretConn(t, s).VerifyNode("a"); err != nil {
		t.Errorf("the server does not identify the dialer as node a: %v", err)
	}
	_, _ = c.Close(), s.Close()
}

// wantRefused checks that two nodes do not connect, and the error of each side.
func wantRefused(t *testing.T, client, server wrapFunc, wantClient, wantServer string) {
	t.Helper()
	_, _, clientErr, serverErr := connectSim(t, client, server)
	if clientErr == nil || !strings.Contains(clientErr.Error(), wantClient) {
		t.Errorf("client error %v, want one with %q", clientErr, wantClient)
	}
	if serverErr == nil || !strings.Contains(serverErr.Error(), wantServer) {
		t.Errorf("server error %v, want one with %q", serverErr, wantServer)
	}
}

func TestSessionsAreResumedForOneHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList()
		a, b := newWrapper(t, l, "a"), newWrapper(t, l, "b")
		wantConnected(t, dialTo(a, "b"), b.Server, false)
		for range 3 {
			wantConnected(t, dialTo(a, "b"), b.Server, true)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		wantConnected(t, dialTo(a, "b"), b.Server, true)
		time.Sleep(time.Nanosecond)
		wantConnected(t, dialTo(a, "b"), b.Server, false)
		// A restarted process has no sessions and can still connect.
		wantConnected(t, dialTo(a, "b"), newWrapper(t, l, "b").Server, false)
		wantConnected(t, dialTo(newWrapper(t, l, "a"), "b"), b.Server, false)
	})
}

// An attacker who breaks P-256 must not be able to decrypt recordings: every session starts
// with ML-KEM, and only such a session is resumed. If the peer has restarted, the dialer
// dials again.
func TestResumedSessionsStartWithMLKEM(t *testing.T) {
	l := newList()
	a, b := newWrapper(t, l, "a"), newWrapper(t, l, "b")
	for i, want := range []struct {
		resumed bool
		curve   tls.CurveID
		restart bool // restart b afterwards
	}{
		{false, tls.X25519MLKEM768, false},
		{true, tls.CurveP256, false},
		{true, tls.CurveP256, true},
		{false, tls.X25519MLKEM768, false},
		{true, tls.CurveP256, false},
	} {
		c, s, clientErr, serverErr := connect(t, dialTo(a, "b"), b.Server)
		if clientErr != nil || serverErr != nil {
			t.Fatal(clientErr, serverErr)
		}
		if got := secretConn(t, c).ConnectionState(); got.DidResume != want.resumed || got.CurveID != want.curve {
			t.Errorf("stream %d: resumed %v, curve %v; want %v, %v", i, got.DidResume, got.CurveID, want.resumed, want.curve)
		}
		_, _ = c.Close(), s.Close()
		if want.restart {
			b = newWrapper(t, l, "b")
		}
	}
}

// The session expires at the peer first, without a restart.
func TestSessionExpiredAtPeerIsReplacedWithMLKEM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList()
		a, b, c := newWrapper(t, l, "a"), newWrapper(t, l, "b"), newWrapper(t, l, "c")
		x, y, clientErr, serverErr := connect(t, dialTo(c, "b"), b.Server) // starts the hour of b
		if clientErr != nil || serverErr != nil {
			t.Fatal(clientErr, serverErr)
		}
		_, _ = x.Close(), y.Close()
		for range 13 {
			time.Sleep(10 * time.Minute)
			wantQuantumSafe(t, a, b)
		}
	})
}

// Many streams find at the same time that the peer has lost the session. None may use P-256
// alone.
func TestConcurrentDialsAfterPeerRestartUseMLKEM(t *testing.T) {
	l := newList()
	a, b := newWrapper(t, l, "a"), newWrapper(t, l, "b")
	wantQuantumSafe(t, a, b)
	b = newWrapper(t, l, "b")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { wantQuantumSafe(t, a, b) })
	}
	wg.Wait()
}

// wantQuantumSafe checks that a connects to b, either resumed or with ML-KEM.
func wantQuantumSafe(t *testing.T, a, b *secret.TLSWrapper) {
	t.Helper()
	c, s, clientErr, serverErr := connect(t, dialTo(a, "b"), b.Server)
	if clientErr != nil || serverErr != nil {
		t.Error(clientErr, serverErr)
		return
	}
	if got := secretConn(t, c).ConnectionState(); !got.DidResume && got.CurveID != tls.X25519MLKEM768 {
		t.Errorf("a stream that is not resumed uses only %v", got.CurveID)
	}
	_, _ = c.Close(), s.Close()
}

// A session belongs to a node, not to an address: another node at that address resumes
// nothing.
func TestSessionIsResumedOnlyWithSameNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList()
		a, b := newWrapper(t, l, "a"), newWrapper(t, l, "b")
		wantConnected(t, dialTo(a, "b"), b.Server, false)
		wantRefused(t, dialTo(a, "c"), b.Server, `good for node "b" and not for node "c"`, "")
		wantRefused(t, dialTo(a, "b"), newWrapper(t, l, "c").Server, `good for node "c" and not for node "b"`, "")
		wantConnected(t, dialTo(a, "b"), b.Server, false) // the failed attempts discarded the session
		wantConnected(t, dialTo(a, "b"), b.Server, true)
	})
}

// A session that began with a secret is not resumed after that secret is retired, on either
// side.
func TestSessionsEndWithTheirSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
		attacker, b := newWrapper(t, secret.List{old, next}, "a"), newWrapper(t, secret.List{next, old}, "b")
		wantConnected(t, dialTo(attacker, "b"), b.Server, false)
		wantConnected(t, dialTo(attacker, "b"), b.Server, true)
		b.Replace(derive(t, secret.List{next}, "b"))
		wantRefused(t, dialTo(attacker, "b"), b.Server, "refused this one's certificate", `node "a"`)

		a, attackerB := newWrapper(t, secret.List{next, old}, "a"), newWrapper(t, secret.List{old, next}, "b")
		wantConnected(t, dialTo(a, "b"), attackerB.Server, false)
		wantConnected(t, dialTo(a, "b"), attackerB.Server, true)
		a.Replace(derive(t, secret.List{next}, "a"))
		wantRefused(t, dialTo(a, "b"), attackerB.Server, `node "b"`, "")
	})
}

// A session is not resumed after a certificate of its chain has expired: neither that of
// the node nor that of the CA.
func TestSessionsEndWhenCertificatesExpire(t *testing.T) {
	for name, at := range map[string]struct{ ca, leaf time.Duration }{
		"leaf": {50 * time.Minute, 30 * time.Minute}, "authority": {30 * time.Minute, 50 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPKI(t)
				now := time.Now()
				p.key, p.ca = p.sign("ca", &x509.Certificate{
					IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: now.Add(at.ca),
				}, nil)
				load := func(node string) *secret.TLSWrapper {
					return secret.NewTLSWrapper(p.load(node, &x509.Certificate{DNSNames: []string{node}, ExtKeyUsage: clientAndServer(), NotAfter: now.Add(at.leaf)}))
				}
				a, b := load("a"), load("b")
				wantConnected(t, dialTo(a, "b"), b.Server, false)
				wantConnected(t, dialTo(a, "b"), b.Server, true)
				time.Sleep(29 * time.Minute)
				wantConnected(t, dialTo(a, "b"), b.Server, true)
				time.Sleep(2 * time.Minute)
				wantRefused(t, dialTo(a, "b"), b.Server, "expired", "")
			})
		})
	}
}

// Replaying the recorded bytes of a resumed session must fail.
func TestReplayedSessionIsRefused(t *testing.T) {
	l := newList()
	a, b := newWrapper(t, l, "a"), newWrapper(t, l, "b")
	var sent recording
	client := func(ctx context.Context, c net.Conn) (net.Conn, error) {
		sent.b = nil
		return a.Client(ctx, &tap{Conn: c, to: &sent}, "b")
	}
	for range 2 {
		if _, _, clientErr, serverErr := connect(t, client, b.Server); clientErr != nil || serverErr != nil {
			t.Fatal(clientErr, serverErr)
		}
	}
	replay := func(_ context.Context, c net.Conn) (net.Conn, error) {
		_, err := c.Write(sent.b)
		return c, err
	}
	var got atomic.Int64
	_, _, _, serverErr := connect(t, replay, func(ctx context.Context, c net.Conn) (net.Conn, error) {
		s, err := b.Server(ctx, c)
		if err == nil {
			got.Add(1)
		}
		return s, err
	})
	if serverErr == nil || got.Load() != 0 {
		t.Errorf("the replay was accepted: %v", serverErr)
	}
}
