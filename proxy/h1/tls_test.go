package h1_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// tlsPair returns both ends of a TLS connection over TCP.
func tlsPair(t *testing.T) (near, far *tls.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	nearRaw, farRaw := tcpPair(t)
	near = tls.Server(nearRaw, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	far = tls.Client(farRaw, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error, 1)
	go func() { shaken <- near.HandshakeContext(t.Context()) }()
	if err := errors.Join(far.HandshakeContext(t.Context()), <-shaken); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func TestWatchSeesTheClientLeaveUnderTLS(t *testing.T) {
	near, far := tlsPair(t)
	c := h1.NewConn(near, h1.Options{})
	if !c.HasSocket() {
		t.Fatal("Visible() = false over TLS over TCP")
	}
	leaves(t, c, far)
}

func TestStoppedWatchLeavesTLSReadable(t *testing.T) {
	near, far := tlsPair(t)
	c := h1.NewConn(near, h1.Options{})
	var r h1.Request
	for range 100 {
		c.WatchDisconnect(func() { t.Error("gone called though the client stayed") })
		writeString(t, far, header(""))
		c.StopWatch()
		if err := c.ReadRequest(&r); err != nil {
			t.Fatal(err)
		}
	}
}

// crypto/tls reads ahead: data that arrived with the response is in its buffer, not in the socket. It
// would be read as the next response.
func TestAliveUnderTLS(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for _, tc := range []struct {
		name  string
		after func(*testing.T, *tls.Conn)
		alive bool
	}{
		{"quiet", func(*testing.T, *tls.Conn) {}, true},
		{"a second record", func(t *testing.T, s *tls.Conn) { t.Helper(); writeString(t, s, "HTTP/1.1 200 Evil\r\n\r\n") }, false},
		{"closed", func(t *testing.T, s *tls.Conn) { t.Helper(); shut(t, s) }, false},
		{"half closed", func(t *testing.T, s *tls.Conn) {
			t.Helper()
			if err := s.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, client := tlsPair(t)
			c := h1.NewConn(client, h1.Options{})
			writeString(t, server, answer)
			tc.after(t, server)
			if !tc.alive {
				waitReadable(client.NetConn())
			}
			var res h1.Response
			if err := c.ReadResponse(&res, []byte("GET")); err != nil {
				t.Fatal(err)
			}
			if !tc.alive && c.IsAlive() {
				// Data that was sent after the response may not have arrived with it.
				waitReadable(client.NetConn())
			}
			if alive := c.IsAlive(); alive != tc.alive {
				t.Errorf("Alive() = %v, want %v", alive, tc.alive)
			}
			if !tc.alive {
				return
			}
			writeString(t, server, answer) // and the response can still be read
			if err := c.ReadResponse(&res, []byte("GET")); err != nil || res.Status() != 200 {
				t.Errorf("after Alive: %v", err)
			}
		})
	}
}

// An abort under TLS does not send a close_notify, which would wait up to five seconds if the peer
// does not read.
func TestCutUnderTLSIsAtOnceAndNoEnd(t *testing.T) {
	near, far := tlsPair(t)
	c := h1.NewConn(near, h1.Options{Timeouts: h1.Timeouts{Write: time.Minute}})
	blocked := make(chan struct{})
	go func() {
		defer close(blocked)
		for near.SetWriteDeadline(time.Now().Add(200*time.Millisecond)) == nil {
			if _, err := near.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}()
	<-blocked
	began := time.Now()
	_ = c.Abort()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Cut took %v", took)
	}
	_, err := io.Copy(io.Discard, far)
	if err == nil {
		t.Error("the cut looks like an end")
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the other side was not told: %v", err)
	}
}
