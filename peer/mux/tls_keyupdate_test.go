package mux_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/peer/mux"
)

// countingConn is a recordInterceptor that counts the bytes that TLS writes.
type countingConn struct {
	*net.TCPConn
	to func(b []byte)

	mu       sync.Mutex
	changed  sync.Cond
	diverted int
	written  int
}

func (d *countingConn) Divert(to func(b []byte)) (under io.Writer) {
	d.to = to
	return writerFunc(func(b []byte) (int, error) {
		n, err := d.TCPConn.Write(b)
		d.mu.Lock()
		d.written += n
		d.mu.Unlock()
		return n, err
	})
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (d *countingConn) Write(b []byte) (int, error) {
	if d.to != nil {
		d.to(b)
		d.mu.Lock()
		d.diverted += len(b)
		d.changed.Broadcast()
		d.mu.Unlock()
		return len(b), nil
	}
	return d.TCPConn.Write(b)
}

// sealer encrypts records of TLS 1.3 (AES-128-GCM, SHA-256) as a client would.
type sealer struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func expand(secret []byte, label string, n int) []byte {
	label = "tls13 " + label
	info := string([]byte{byte(n >> 8), byte(n), byte(len(label))}) + label + "\x00"
	b, err := hkdf.Expand(sha256.New, secret, info, n)
	if err != nil {
		panic(err)
	}
	return b
}

func newSealer(secret []byte) *sealer {
	block, err := aes.NewCipher(expand(secret, "key", 16))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &sealer{secret: secret, aead: aead, iv: expand(secret, "iv", 12)}
}

func (s *sealer) record(b []byte, typ byte, data []byte) []byte {
	inner := append(append([]byte(nil), data...), typ)
	n := len(inner) + s.aead.Overhead()
	head := []byte{23, 3, 3, byte(n >> 8), byte(n)}
	nonce := append([]byte(nil), s.iv...)
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], s.seq)
	for i := range seq {
		nonce[4+i] ^= seq[i]
	}
	s.seq++
	return s.aead.Seal(append(b, head...), nonce, inner, head)
}

// handshake performs a TLS handshake, and returns the server and the traffic secret of the client.
func handshake(t *testing.T, a net.Conn, far *countingConn) (server *tls.Conn, secret []byte) {
	t.Helper()
	server = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{certificate(t)}, SessionTicketsDisabled: true})
	var log strings.Builder
	client := tls.Client(a, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &log})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	if err := errors.Join(client.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	if s := client.ConnectionState(); s.Version != tls.VersionTLS13 || s.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Fatalf("version %x, suite %x", s.Version, s.CipherSuite)
	}
	for line := range strings.Lines(log.String()) {
		if f := strings.Fields(line); f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, _ = hex.DecodeString(f[2])
		}
	}
	return server, secret
}

// pong is an unsolicited pong frame, which needs no response.
var pong = []byte{0, 0, 0, 9, 0, 0, 0, 0} //nolint:gochecknoglobals // a constant

// A key update of the peer is answered even if the session has nothing else to write.
func TestTLSKeyUpdateIsAnswered(t *testing.T) {
	_, a, b := dialTCP(t)
	raw, is := b.(*net.TCPConn)
	if !is {
		t.Fatalf("%T", b)
	}
	far := &countingConn{TCPConn: raw}
	far.changed.L = &far.mu
	server, secret := handshake(t, a, far)
	tr := mux.NewServer(server, mux.NewBudget(mux.MaxStreams, nil), func(*mux.Stream) bool { return true })
	var runs sync.WaitGroup
	runs.Go(func() { _ = tr.Run() })
	defer runs.Wait()
	defer tr.Fail(net.ErrClosed)
	s := newSealer(secret)
	out := s.record(nil, 22, []byte{24, 0, 0, 1, 1}) // KeyUpdate, update_requested
	out = newSealer(expand(s.secret, "traffic upd", 32)).record(out, 23, pong)
	_ = a.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := a.Write(out); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(a, head); err != nil || head[0] != 23 {
		t.Errorf("the reply is %x, %v, want a record", head, err)
	}
}

// A peer that requests key updates all the time, on a session that has nothing to write, cannot
// make this end keep more than a limited number of bytes.
func TestTLSRepliesAreLimited(t *testing.T) {
	_, a, b := dialTCP(t)
	small, is := b.(*net.TCPConn)
	if !is {
		t.Fatalf("%T", b)
	}
	_ = small.SetWriteBuffer(16 << 10)
	far := &countingConn{TCPConn: small}
	far.changed.L = &far.mu
	server, secret := handshake(t, a, far)
	tr := mux.NewServer(server, mux.NewBudget(mux.MaxStreams, nil), func(*mux.Stream) bool { return true })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Log(tr.Run())
		far.mu.Lock()
		far.changed.Broadcast()
		far.mu.Unlock()
	}()
	defer func() { tr.Fail(net.ErrClosed); <-ended }()

	const bound, updates = 64 << 10, 60_000
	go func() {
		s := newSealer(secret)
		var out []byte
		for i := range updates {
			out = s.record(out, 22, []byte{24, 0, 0, 1, 1}) // KeyUpdate, update_requested
			s = newSealer(expand(s.secret, "traffic upd", 32))
			if i%8 == 7 { // crypto/tls accepts 16 in a row
				out = s.record(out, 23, pong)
			}
			if i%1000 == 999 {
				if _, err := a.Write(out); err != nil {
					return
				}
				out = out[:0]
			}
		}
	}()
	far.mu.Lock()
	defer far.mu.Unlock()
	for far.diverted < updates*27 {
		select {
		case <-ended:
			t.Logf("the session ended with %d bytes buffered", far.diverted-far.written)
			return
		default:
		}
		if kept := far.diverted - far.written; kept > bound {
			t.Fatalf("%d bytes of replies are buffered (%d were written)", kept, far.written)
		}
		far.changed.Wait()
	}
	t.Errorf("%d bytes of replies were buffered", far.diverted-far.written)
}
