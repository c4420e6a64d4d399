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

// overTCP runs f with both ends of a trunk over a socket, as it is and sealed.
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

// wraps returns what may be between a trunk and its socket.
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

// diverted is a connection whose writes may go elsewhere.
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

// dialed returns both ends of a connection.
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

// certificate returns one that nobody checks.
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

// sealed wraps both ends in TLS.
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

// echo says back all that a lane brings.
func echo(st *mux.Stream) {
	_, _ = io.Copy(st, st)
	_ = st.Close()
}

// Many ask at once, each writes itself or lets another one write for it, and each has its
// own bytes back, in order, whatever is long.
func TestWhoWritesForOthersMixesNothingUp(t *testing.T) {
	withTCPPair(t, func(t *testing.T, near, _ *mux.Session, given <-chan *mux.Stream) {
		t.Helper()
		const lanes, rounds = 40, 150
		var all sync.WaitGroup
		for i := range lanes {
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
						t.Errorf("lane %d, round %d: what it said has not come back: %v", i, n, err)
						return
					}
				}
			})
		}
		for range lanes {
			st := <-given
			all.Go(func() { echo(st) })
		}
		all.Wait()
	})
}

// slow is a connection that brings nothing while somebody else has the gate.
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

// Who has something to say to an end that reads nothing waits as its own deadline allows,
// though nobody else writes, and nothing is lost of what was taken before.
func TestWhoWritesItselfIsNotHeldByTheSocket(t *testing.T) {
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
			var lanes []*mux.Stream
			for range most {
				st, err := near.OpenStream()
				if err != nil {
					t.Fatal(err)
				}
				lanes = append(lanes, st)
			}
			if err := near.AwaitPong(t.Context()); err != nil { // all opens have been read: nobody writes
				t.Fatal(err)
			}
			gate.Lock()
			whole := 0
			for _, st := range lanes {
				_ = st.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				_, err := st.Write(make([]byte, size))
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break // neither the socket nor the queue takes more
				}
				if err != nil {
					t.Fatal(err)
				}
				whole++
			}
			if whole == most {
				t.Fatal("the socket takes all there is")
			}
			for i, st := range lanes {
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
						t.Errorf("a lane brings %d bytes, want the %d that were taken", n, size)
					}
				case err := <-ended:
					t.Fatalf("the trunk ends with %v", err)
				}
			}
		})
	}
}
