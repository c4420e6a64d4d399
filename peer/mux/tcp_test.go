package mux_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"shardway/peer/mux"
)

// withTCPPair runs f with both ends of a session over TCP, in plaintext and with TLS.
func withTCPPair(t *testing.T, f func(t *testing.T, near, far *mux.Session, given <-chan *mux.Stream)) {
	t.Helper()
	for name, wrap := range transports() {
		t.Run(name, func(t *testing.T) {
			a, b := wrap(dialTCP(t))
			given := make(chan *mux.Stream, 256)
			near, far := mux.NewClient(a, mux.NewBudget(mux.MaxStreams, nil)), mux.NewServer(b, mux.NewBudget(mux.MaxStreams, nil), func(st *mux.Stream) bool { given <- st; return true })
			var runs sync.WaitGroup
			runs.Go(func() { _ = near.Run() })
			runs.Go(func() { _ = far.Run() })
			defer runs.Wait()
			defer far.Fail(errTestOver)
			defer near.Fail(errTestOver)
			f(t, near, far, given)
		})
	}
}

// transports returns functions that wrap the two ends of a connection.
func transports() map[string]func(t *testing.T, near, far net.Conn) (net.Conn, net.Conn) {
	return map[string]func(t *testing.T, near, far net.Conn) (net.Conn, net.Conn){
		"plain":  func(_ *testing.T, near, far net.Conn) (net.Conn, net.Conn) { return near, far },
		"sealed": withTLS,
		"sealed beside the socket": func(t *testing.T, near, far net.Conn) (net.Conn, net.Conn) {
			t.Helper()
			a, aIs := near.(*net.TCPConn)
			b, bIs := far.(*net.TCPConn)
			if !aIs || !bIs {
				t.Fatalf("%T and %T", near, far)
			}
			return withTLS(t, &recordInterceptor{TCPConn: a}, &recordInterceptor{TCPConn: b})
		},
	}
}

// recordInterceptor is a connection that implements the interception of TLS records.
type recordInterceptor struct {
	*net.TCPConn
	to func(b []byte)
}

func (d *recordInterceptor) Divert(to func(b []byte)) (under io.Writer) {
	d.to = to
	return d.TCPConn
}

func (d *recordInterceptor) Write(b []byte) (int, error) {
	if d.to != nil {
		d.to(b)
		return len(b), nil
	}
	return d.TCPConn.Write(b)
}

// dialTCP returns both ends of a TCP connection.
func dialTCP(t *testing.T) (_ *testing.T, near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	near, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return t, near, far
}

// certificate returns a self-signed certificate.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}
}

// withTLS wraps both ends in TLS.
func withTLS(t *testing.T, near, far net.Conn) (net.Conn, net.Conn) {
	t.Helper()
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	if err := errors.Join(client.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// echo writes back all that it reads.
func echo(st *mux.Stream) {
	_, _ = io.Copy(st, st)
	_ = st.Close()
}

// Many streams write at the same time, inline or through the writer. Each gets its own bytes back
// in order, also for long writes.
func TestConcurrentInlineWritesKeepOrder(t *testing.T) {
	withTCPPair(t, func(t *testing.T, near, _ *mux.Session, given <-chan *mux.Stream) {
		t.Helper()
		const streams, rounds = 40, 150
		var all sync.WaitGroup
		for i := range streams {
			st, err := near.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				defer func() { _ = st.Close() }()
				for n := range rounds {
					size := 100
					if (n+i)%29 == 0 {
						size = 70 << 10
					}
					said := bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(i*rounds+n)), size/4)
					go func() { _, _ = st.Write(said) }()
					got := make([]byte, len(said))
					if _, err := io.ReadFull(st, got); err != nil || !bytes.Equal(got, said) {
						t.Errorf("stream %d, round %d: the echo is wrong: %v", i, n, err)
						return
					}
				}
			})
		}
		for range streams {
			st := <-given
			all.Go(func() { echo(st) })
		}
		all.Wait()
	})
}

// gatedConn is a connection whose reads return nothing while the gate is locked.
type gatedConn struct {
	net.Conn
	gate *sync.Mutex
}

func (s gatedConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.gate.Lock()
	defer s.gate.Unlock()
	return n, err
}

// A write to a peer that does not read respects its own deadline, even if no other goroutine
// writes. Data that was accepted before is not lost.
func TestInlineWriteDoesNotBlockOnSocket(t *testing.T) {
	for name, wrap := range transports() {
		t.Run(name, func(t *testing.T) {
			a, b := wrap(dialTCP(t))
			const size, most = 24 << 10, 4_000
			brought, ended := make(chan int64, most), make(chan error, 1)
			var runs sync.WaitGroup
			gate := new(sync.Mutex)
			near, far := mux.NewClient(a, mux.NewBudget(most, nil)), mux.NewServer(gatedConn{b, gate}, mux.NewBudget(most, nil), func(st *mux.Stream) bool {
				runs.Go(func() {
					n, err := io.Copy(io.Discard, st)
					if _ = st.Close(); err == nil {
						brought <- n
					}
				})
				return true
			})
			runs.Go(func() { _ = near.Run() })
			runs.Go(func() { ended <- far.Run() })
			defer runs.Wait()
			defer far.Fail(errTestOver)
			defer near.Fail(errTestOver)
			var streams []*mux.Stream
			for range most {
				st, err := near.OpenStream()
				if err != nil {
					t.Fatal(err)
				}
				streams = append(streams, st)
			}
			if err := near.AwaitPong(t.Context()); err != nil { // all open frames have been read, so the writer is idle
				t.Fatal(err)
			}
			gate.Lock()
			whole := 0
			for _, st := range streams {
				_ = st.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				_, err := st.Write(make([]byte, size))
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break // neither the socket nor the queue accepts more
				}
				if err != nil {
					t.Fatal(err)
				}
				whole++
			}
			if whole == most {
				t.Fatal("the socket accepted all data")
			}
			for i, st := range streams {
				if i >= whole {
					_ = st.SetLinger(0)
				}
				_ = st.Close()
			}
			gate.Unlock()
			for range whole {
				select {
				case n := <-brought:
					if n != size {
						t.Errorf("a stream delivered %d bytes, want the %d that were accepted", n, size)
					}
				case err := <-ended:
					t.Fatalf("Run = %v", err)
				}
			}
		})
	}
}
