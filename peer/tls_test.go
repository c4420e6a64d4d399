package peer_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/secret"
	"shardway/peer"
)

// sealed sets the TLS configuration of a node with these secrets in o.
func sealed(t *testing.T, o peer.Options, l secret.List) peer.Options {
	t.Helper()
	tr, err := secret.Derive(l, o.Node)
	if err != nil {
		t.Fatal(err)
	}
	s := secret.NewTLSWrapper(tr)
	o.WrapClient, o.WrapServer = s.Client, s.Server
	return o
}

func newSecret() secret.List { return secret.List{secret.Generate(time.Now())} }

// dialer returns a port of node a that only dials. Without secrets, it does not use TLS.
func dialer(t *testing.T, b *book, l secret.List) *peer.Port {
	t.Helper()
	o := peer.Options{Node: "a", Cluster: in("c1"), Lookup: b.lookup}
	if l != nil {
		o = sealed(t, o, l)
	}
	return peer.New(o)
}

// lines collects log lines.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestStreamOverASecretIsOfThatNode(t *testing.T) {
	b, l := &book{}, newSecret()
	echoes(t, b, sealed(t, peer.Options{Node: "b"}, l))
	for _, kind := range []peer.Kind{peer.Heartbeat, peer.Forward, peer.Control} {
		c, err := dialer(t, b, l).Dial(t.Context(), "b", kind)
		if err != nil {
			t.Fatal(err)
		}
		if c.Direct() {
			t.Error("a stream over TLS reports that its socket can be read")
		}
		if _, err := c.SyscallConn(); err != nil {
			t.Errorf("the socket cannot be looked at: %v", err)
		}
		wantEcho(t, c, "through")
		_ = c.Close()
	}
	if c, err := dialer(t, b, nil).Dial(t.Context(), "b", peer.Forward); err == nil {
		t.Errorf("plain dialer got %v", c.Peer())
	}
}

// A node with a valid certificate cannot name another node in its preface.
func TestNodeCannotSpeakForAnother(t *testing.T) {
	b, l := &book{}, newSecret()
	p := echoes(t, b, sealed(t, peer.Options{Node: "b"}, l))
	o := sealed(t, peer.Options{Node: "mallory"}, l)
	o.Node, o.Cluster, o.Lookup = "a", in("c1"), b.lookup
	_, err := peer.New(o).Dial(t.Context(), "b", peer.Forward)
	var re *peer.RefusedError
	if !errors.As(err, &re) || re.Code != peer.RefusedWrongCertificate || !strings.Contains(re.Reason, `good for node "mallory" and not for node "a"`) {
		t.Errorf("dial = %v, want it refused for its identity", err)
	}
	// The dialed node can name another node only in its response.
	b.set("c", b.addrs["b"])
	if _, err := dialer(t, b, l).Dial(t.Context(), "c", peer.Forward); err == nil || !strings.Contains(err.Error(), `good for node "b" and not for node "c"`) {
		t.Errorf("dial of another node = %v", err)
	}
	if s := p.Stats(); s.Accepted != 0 {
		t.Errorf("%d accepted, want 0", s.Accepted)
	}
}

func TestPlainAndTLSNeverMixSilently(t *testing.T) {
	for _, tt := range []struct {
		name         string
		dials, waits bool // dialing node and accepting node with TLS
		want         string
	}{
		{"plain dialer", false, true, "this node requires TLS"},
		{"plain port", true, false, "it does not use TLS and this node does"},
	} {
		b, l := &book{}, newSecret()
		log := &lines{}
		o := peer.Options{Node: "b", Log: zerolog.New(log)}
		if tt.waits {
			o = sealed(t, o, l)
		}
		p := echoes(t, b, o)
		d := dialer(t, b, nil)
		if tt.dials {
			d = dialer(t, b, l)
		}
		for range 20 {
			_, err := d.Dial(t.Context(), "b", peer.Forward)
			var re *peer.RefusedError
			if !errors.As(err, &re) || re.Code != peer.RefusedTLSMismatch || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--secret-file") {
				t.Fatalf("%s: dial = %v, want the reason", tt.name, err)
			}
		}
		if s := p.Stats(); s.Accepted != 0 || s.Refused != 20 {
			t.Errorf("%s: stats = %+v, want 20 refused", tt.name, s)
		}
		if n := strings.Count(log.String(), `"level":"warn"`); n != 1 {
			t.Errorf("%s: %d warnings, want 1:\n%s", tt.name, n, log)
		}
	}
}

func TestForeignCertificateIsLoggedOnce(t *testing.T) {
	b := &book{}
	log := &lines{}
	echoes(t, b, sealed(t, peer.Options{Node: "b", Log: zerolog.New(log)}, newSecret()))
	// The client trusts b, and b does not trust the client.
	c := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{secret.ALPN}, MinVersion: tls.VersionTLS13, Certificates: tlsConfig(t).Certificates}
	for range 3 {
		raw, err := net.Dial("tcp", b.addrs["b"])
		if err != nil {
			t.Fatal(err)
		}
		tc := tls.Client(raw, c)
		if _, err := tc.Read(make([]byte, 1)); err == nil {
			t.Error("something was answered")
		}
		_ = tc.Close()
	}
	if n := strings.Count(log.String(), "is not accepted"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log)
	}
}

func TestUnknownNodeIsRefusedUntilItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Bool
		p, bad := hostile(t, peer.Options{IsKnownNode: func(node string) bool { return node == "b" || known.Load() }})
		a := peer.New(peer.Options{Node: "a", Cluster: in("c1"), Dial: bad.Dial, Lookup: func(string) (string, bool) { return "b:7947", true }})
		start := time.Now()
		_, err := a.Dial(t.Context(), "b", peer.Heartbeat)
		var re *peer.RefusedError
		if !errors.As(err, &re) || re.Code != peer.RefusedUnknownNode || !strings.Contains(re.Reason, `node "a" is not known here`) {
			t.Fatalf("dial = %v, want it refused as unknown", err)
		}
		if d := time.Since(start); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("it was tried for %v, want 5 s", d)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = a.Dial(short, "b", peer.Heartbeat); !errors.As(err, &re) || re.Code != peer.RefusedUnknownNode {
			t.Errorf("dial with a second's time = %v, want the refusal and not the deadline", err)
		}
		time.AfterFunc(2*time.Second, func() { known.Store(true) })
		_ = wantStream(t, a, "b", peer.Heartbeat).Close()
		_ = p
	})
}

func TestUnknownNodeCausesNoAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, bad := hostile(t, peer.Options{Disk: "d2", Cluster: in(""), IsKnownNode: func(string) bool { return false }, AdoptCluster: func(c string) error {
			t.Errorf("adopted %q", c)
			return nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := peer.New(peer.Options{Node: "a", Cluster: in("c1"), Dial: bad.Dial, Lookup: func(string) (string, bool) { return "b:7947", true }})
		var re *peer.RefusedError
		if _, err := a.DialServer(ctx, "b", "d2", peer.Raft); !errors.As(err, &re) || re.Code != peer.RefusedUnknownNode {
			t.Errorf("dial = %v, want it refused as unknown", err)
		}
	})
}

// A recorded heartbeat stream that another host replays is refused, both as a whole conversation and
// as single records.
func TestReplayedStreamIsRefused(t *testing.T) {
	b, l := &book{}, newSecret()
	var seen atomic.Int64
	o := sealed(t, peer.Options{Node: "b", Cluster: in("c1")}, l)
	p := peer.New(o)
	p.Handle(peer.Heartbeat, func(_ context.Context, c *peer.Conn) {
		defer func() { _ = c.Close() }()
		for {
			if _, err := peer.ReadFrame(c, nil, 1<<10); err != nil {
				return
			}
			seen.Add(1)
			if peer.WriteFrame(c, []byte("ok")) != nil {
				return
			}
		}
	})
	serve(t, b, "b", p)

	var sent []byte
	do := sealed(t, peer.Options{Node: "a", Cluster: in("c1"), Lookup: b.lookup}, l)
	do.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		return &recorder{Conn: c, to: &sent}, err
	}
	c, err := peer.New(do).Dial(t.Context(), "b", peer.Heartbeat)
	if err != nil {
		t.Fatal(err)
	}
	before := len(sent)
	if err = peer.WriteFrame(c, []byte("heartbeat 1")); err != nil {
		t.Fatal(err)
	}
	if _, err = peer.ReadFrame(c, nil, 1<<10); err != nil {
		t.Fatal(err)
	}
	record := sent[before:]
	// The record is sent again on the same connection, below TLS. Each record is accepted once.
	raw, ok := c.NetConn().(interface{ NetConn() net.Conn })
	if !ok {
		t.Fatalf("beneath is %T", c.NetConn())
	}
	if _, err = raw.NetConn().Write(record); err != nil {
		t.Fatal(err)
	}
	if _, err = io.ReadAll(c); err == nil {
		t.Error("the stream went on after a replayed record")
	}
	// The whole recording is sent on another connection.
	again, err := net.Dial("tcp", b.addrs["b"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if _, err := again.Write(sent); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(again)
	if n := seen.Load(); n != 1 {
		t.Errorf("%d heartbeats arrived, want 1", n)
	}
}

type recorder struct {
	net.Conn
	to *[]byte
}

func (r *recorder) Write(p []byte) (int, error) {
	*r.to = append(*r.to, p...)
	return r.Conn.Write(p)
}
