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

// meetNow is meet in a bubble.
func meetNow(t *testing.T, client, server wrapFunc) (c, s net.Conn, cerr, serr error) {
	t.Helper()
	return twice(func() (c, s net.Conn, cerr, serr error) { return meetNowOnce(t, client, server) })
}

func meetNowOnce(t *testing.T, client, server wrapFunc) (c, s net.Conn, cerr, serr error) {
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
		if raw, serr = ln.Accept(); serr != nil {
			return
		}
		if s, serr = server(ctx, raw); serr == nil {
			serr = swap(s)
		}
		if serr != nil {
			_ = raw.Close()
		}
	}()
	raw, err := h.Dial(ctx, h.Addr(1))
	if err != nil {
		t.Fatal(err)
	}
	if c, cerr = client(ctx, raw); cerr == nil {
		cerr = swap(c)
	}
	if cerr != nil {
		_ = raw.Close()
	}
	<-done
	return c, s, cerr, serr
}

// wantMet checks that two nodes meet, with a session resumed or not.
func wantMet(t *testing.T, client, server wrapFunc, resumed bool) {
	t.Helper()
	c, s, cerr, serr := meetNow(t, client, server)
	if cerr != nil || serr != nil {
		t.Fatalf("client %v, server %v", cerr, serr)
	}
	if got := sealed(t, c).ConnectionState().DidResume; got != resumed {
		t.Errorf("the client resumed a session = %v, want %v", got, resumed)
	}
	if got := sealed(t, s).ConnectionState().DidResume; got != resumed {
		t.Errorf("the server resumed a session = %v, want %v", got, resumed)
	}
	if err := sealed(t, s).Vouch("a"); err != nil {
		t.Errorf("the server cannot tell that node a dialed: %v", err)
	}
	_, _ = c.Close(), s.Close()
}

// wantRefused checks that they do not, and which side says why.
func wantRefused(t *testing.T, client, server wrapFunc, clientSays, serverSays string) {
	t.Helper()
	_, _, cerr, serr := meetNow(t, client, server)
	if cerr == nil || !strings.Contains(cerr.Error(), clientSays) {
		t.Errorf("the client meets %v, want an error with %q", cerr, clientSays)
	}
	if serr == nil || !strings.Contains(serr.Error(), serverSays) {
		t.Errorf("the server meets %v, want an error with %q", serr, serverSays)
	}
}

func TestSessionsAreResumedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fresh()
		a, b := seal(t, l, "a"), seal(t, l, "b")
		wantMet(t, dialing(a, "b"), b.Server, false)
		for range 3 {
			wantMet(t, dialing(a, "b"), b.Server, true)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		wantMet(t, dialing(a, "b"), b.Server, true)
		time.Sleep(time.Nanosecond)
		wantMet(t, dialing(a, "b"), b.Server, false)
		// A process that starts again has no session, and meets all the same.
		wantMet(t, dialing(a, "b"), seal(t, l, "b").Server, false)
		wantMet(t, dialing(seal(t, l, "a"), "b"), b.Server, false)
	})
}

// What is recorded is not opened by who has P-256: each session begins with ML-KEM, and what
// is resumed is such a one. Where the other end has begun anew, it is dialed again.
func TestResumedSessionsBeganWithMLKEM(t *testing.T) {
	l := fresh()
	a, b := seal(t, l, "a"), seal(t, l, "b")
	for i, want := range []struct {
		resumed bool
		by      tls.CurveID
		anew    bool // b begins anew after it
	}{
		{false, tls.X25519MLKEM768, false},
		{true, tls.CurveP256, false},
		{true, tls.CurveP256, true},
		{false, tls.X25519MLKEM768, false},
		{true, tls.CurveP256, false},
	} {
		c, s, cerr, serr := meet(t, dialing(a, "b"), b.Server)
		if cerr != nil || serr != nil {
			t.Fatal(cerr, serr)
		}
		if got := sealed(t, c).ConnectionState(); got.DidResume != want.resumed || got.CurveID != want.by {
			t.Errorf("stream %d is resumed: %v, by %v; want %v, by %v", i, got.DidResume, got.CurveID, want.resumed, want.by)
		}
		_, _ = c.Close(), s.Close()
		if want.anew {
			b = seal(t, l, "b")
		}
	}
}

// The hour of the other end is over first, and nobody restarts.
func TestSessionThatEndsThereBeginsAnewWithMLKEM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fresh()
		a, b, c := seal(t, l, "a"), seal(t, l, "b"), seal(t, l, "c")
		x, y, cerr, serr := meet(t, dialing(c, "b"), b.Server) // b's hour begins
		if cerr != nil || serr != nil {
			t.Fatal(cerr, serr)
		}
		_, _ = x.Close(), y.Close()
		for range 13 {
			time.Sleep(10 * time.Minute)
			wantStrong(t, a, b)
		}
	})
}

// Many streams find together that a session is none any more, and none is by P-256 alone.
func TestManyFindASessionEnded(t *testing.T) {
	l := fresh()
	a, b := seal(t, l, "a"), seal(t, l, "b")
	wantStrong(t, a, b)
	b = seal(t, l, "b")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { wantStrong(t, a, b) })
	}
	wg.Wait()
}

// wantStrong checks that a meets b, resumed or by ML-KEM.
func wantStrong(t *testing.T, a, b *secret.TLSWrapper) {
	t.Helper()
	c, s, cerr, serr := meet(t, dialing(a, "b"), b.Server)
	if cerr != nil || serr != nil {
		t.Error(cerr, serr)
		return
	}
	if got := sealed(t, c).ConnectionState(); !got.DidResume && got.CurveID != tls.X25519MLKEM768 {
		t.Errorf("a stream that is not resumed is by %v alone", got.CurveID)
	}
	_, _ = c.Close(), s.Close()
}

// A session is one with a node, whatever its address: another node there resumes nothing.
func TestSessionIsOfOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fresh()
		a, b := seal(t, l, "a"), seal(t, l, "b")
		wantMet(t, dialing(a, "b"), b.Server, false)
		wantRefused(t, dialing(a, "c"), b.Server, `good for node "b" and not for node "c"`, "")
		wantRefused(t, dialing(a, "b"), seal(t, l, "c").Server, `good for node "c" and not for node "b"`, "")
		wantMet(t, dialing(a, "b"), b.Server, false) // who was refused is not believed for what was
		wantMet(t, dialing(a, "b"), b.Server, true)
	})
}

// Who has a session of a secret's time has nothing once that is retired, on either side.
func TestNoSessionOutlivesItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
		thief, b := seal(t, secret.List{old, next}, "a"), seal(t, secret.List{next, old}, "b")
		wantMet(t, dialing(thief, "b"), b.Server, false)
		wantMet(t, dialing(thief, "b"), b.Server, true)
		b.Replace(trust(t, secret.List{next}, "b"))
		wantRefused(t, dialing(thief, "b"), b.Server, "refused this one's certificate", `node "a"`)

		a, liar := seal(t, secret.List{next, old}, "a"), seal(t, secret.List{old, next}, "b")
		wantMet(t, dialing(a, "b"), liar.Server, false)
		wantMet(t, dialing(a, "b"), liar.Server, true)
		a.Replace(trust(t, secret.List{next}, "a"))
		wantRefused(t, dialing(a, "b"), liar.Server, `node "b"`, "")
	})
}

// A session of certificates with a lifetime ends with that of each of them: the node's own,
// and that of who vouches for it.
func TestSessionsEndWithTheirCertificates(t *testing.T) {
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
					return secret.NewTLSWrapper(p.load(node, &x509.Certificate{DNSNames: []string{node}, ExtKeyUsage: both(), NotAfter: now.Add(at.leaf)}))
				}
				a, b := load("a"), load("b")
				wantMet(t, dialing(a, "b"), b.Server, false)
				wantMet(t, dialing(a, "b"), b.Server, true)
				time.Sleep(29 * time.Minute)
				wantMet(t, dialing(a, "b"), b.Server, true)
				time.Sleep(2 * time.Minute)
				wantRefused(t, dialing(a, "b"), b.Server, "expired", "")
			})
		})
	}
}

// What was recorded of a session that was resumed opens nothing, however often it is sent.
func TestReplayedSessionIsRefused(t *testing.T) {
	l := fresh()
	a, b := seal(t, l, "a"), seal(t, l, "b")
	var sent recording
	client := func(ctx context.Context, c net.Conn) (net.Conn, error) {
		sent.b = nil
		return a.Client(ctx, &tap{Conn: c, to: &sent}, "b")
	}
	for range 2 {
		if _, _, cerr, serr := meet(t, client, b.Server); cerr != nil || serr != nil {
			t.Fatal(cerr, serr)
		}
	}
	replay := func(_ context.Context, c net.Conn) (net.Conn, error) {
		_, err := c.Write(sent.b)
		return c, err
	}
	var got atomic.Int64
	_, _, _, serr := meet(t, replay, func(ctx context.Context, c net.Conn) (net.Conn, error) {
		s, err := b.Server(ctx, c)
		if err == nil {
			got.Add(1)
		}
		return s, err
	})
	if serr == nil || got.Load() != 0 {
		t.Errorf("the replay was taken: %v", serr)
	}
}
