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
func overTCP(t *testing.T, f func(t *testing.T, near, far *mux.Trunk, given <-chan *mux.Lane)) {
	t.Helper()
	for name, wrap := range wraps() {
		t.Run(name, func(t *testing.T) {
			a, b := wrap(dialed(t))
			given := make(chan *mux.Lane, 256)
			near, far := mux.Dialed(a, mux.NewBudget(mux.MaxLanes, nil)), mux.Accepted(b, mux.NewBudget(mux.MaxLanes, nil), func(l *mux.Lane) bool { given <- l; return true })
			var runs sync.WaitGroup
			runs.Go(func() { _ = near.Run() })
			runs.Go(func() { _ = far.Run() })
			defer runs.Wait()
			defer far.Fail(errOver)
			defer near.Fail(errOver)
			f(t, near, far, given)
		})
	}
}

// wraps returns what may be between a trunk and its socket.
func wraps() map[string]func(t *testing.T, near, far net.Conn) (net.Conn, net.Conn) {
	return map[string]func(t *testing.T, near, far net.Conn) (net.Conn, net.Conn){
		"plain":  func(_ *testing.T, near, far net.Conn) (net.Conn, net.Conn) { return near, far },
		"sealed": sealed,
		"sealed beside the socket": func(t *testing.T, near, far net.Conn) (net.Conn, net.Conn) {
			t.Helper()
			a, aIs := near.(*net.TCPConn)
			b, bIs := far.(*net.TCPConn)
			if !aIs || !bIs {
				t.Fatalf("%T and %T", near, far)
			}
			return sealed(t, &diverted{TCPConn: a}, &diverted{TCPConn: b})
		},
	}
}

// diverted is a connection whose writes may go elsewhere.
type diverted struct {
	*net.TCPConn
	to func(b []byte)
}

func (d *diverted) Divert(to func(b []byte)) (under io.Writer) {
	d.to = to
	return d.TCPConn
}

func (d *diverted) Write(b []byte) (int, error) {
	if d.to != nil {
		d.to(b)
		return len(b), nil
	}
	return d.TCPConn.Write(b)
}

// dialed returns both ends of a connection.
func dialed(t *testing.T) (_ *testing.T, near, far net.Conn) {
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
func sealed(t *testing.T, near, far net.Conn) (net.Conn, net.Conn) {
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
func echo(l *mux.Lane) {
	_, _ = io.Copy(l, l)
	_ = l.Close()
}

// Many ask at once, each writes itself or lets another one write for it, and each has its
// own bytes back, in order, whatever is long.
func TestWhoWritesForOthersMixesNothingUp(t *testing.T) {
	overTCP(t, func(t *testing.T, near, _ *mux.Trunk, given <-chan *mux.Lane) {
		t.Helper()
		const lanes, rounds = 40, 150
		var all sync.WaitGroup
		for i := range lanes {
			l, err := near.Open()
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				defer func() { _ = l.Close() }()
				for n := range rounds {
					size := 100
					if (n+i)%29 == 0 {
						size = 70 << 10
					}
					said := bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(i*rounds+n)), size/4)
					go func() { _, _ = l.Write(said) }()
					got := make([]byte, len(said))
					if _, err := io.ReadFull(l, got); err != nil || !bytes.Equal(got, said) {
						t.Errorf("lane %d, round %d: what it said has not come back: %v", i, n, err)
						return
					}
				}
			})
		}
		for range lanes {
			l := <-given
			all.Go(func() { echo(l) })
		}
		all.Wait()
	})
}

// slow is a connection that brings nothing while somebody else has the gate.
type slow struct {
	net.Conn
	gate *sync.Mutex
}

func (s slow) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.gate.Lock()
	defer s.gate.Unlock()
	return n, err
}

// Who has something to say to an end that reads nothing waits as its own deadline allows,
// though nobody else writes, and nothing is lost of what was taken before.
func TestWhoWritesItselfIsNotHeldByTheSocket(t *testing.T) {
	for name, wrap := range wraps() {
		t.Run(name, func(t *testing.T) {
			a, b := wrap(dialed(t))
			const size, most = 24 << 10, 4_000
			brought, ended := make(chan int64, most), make(chan error, 1)
			var runs sync.WaitGroup
			gate := new(sync.Mutex)
			near, far := mux.Dialed(a, mux.NewBudget(most, nil)), mux.Accepted(slow{b, gate}, mux.NewBudget(most, nil), func(l *mux.Lane) bool {
				runs.Go(func() {
					n, err := io.Copy(io.Discard, l)
					if _ = l.Close(); err == nil {
						brought <- n
					}
				})
				return true
			})
			runs.Go(func() { _ = near.Run() })
			runs.Go(func() { ended <- far.Run() })
			defer runs.Wait()
			defer far.Fail(errOver)
			defer near.Fail(errOver)
			var lanes []*mux.Lane
			for range most {
				l, err := near.Open()
				if err != nil {
					t.Fatal(err)
				}
				lanes = append(lanes, l)
			}
			if err := near.Ask(t.Context()); err != nil { // all opens have been read: nobody writes
				t.Fatal(err)
			}
			gate.Lock()
			whole := 0
			for _, l := range lanes {
				_ = l.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				_, err := l.Write(make([]byte, size))
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
			for i, l := range lanes {
				if i >= whole {
					_ = l.SetLinger(0)
				}
				_ = l.Close()
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
