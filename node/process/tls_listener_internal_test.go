package process

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// writePair writes a certificate with this serial number, and its key.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// handshake performs a TLS handshake and returns the serial number of the certificate.
func handshake(t *testing.T, tl *tlsListener) int64 {
	t.Helper()
	var served sync.WaitGroup
	defer served.Wait()
	served.Go(func() {
		conn, err := tl.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if c, ok := conn.(*tls.Conn); ok {
			_ = c.HandshakeContext(t.Context())
		}
	})
	raw, err := net.Dial("tcp", tl.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestInvalidCertificateFileKeepsThePreviousCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	writePair(t, certFile, keyFile, 1)
	first, err := readCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	var log bytes.Buffer
	tl := newTLSListener(ln, first, zerolog.New(&log))
	if got := handshake(t, tl); got != 1 {
		t.Errorf("serial %d, want 1", got)
	}
	if err := os.WriteFile(certFile, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	tl.refresh(first.files)
	if got := handshake(t, tl); got != 1 || !strings.Contains(log.String(), "certificate not replaced") {
		t.Errorf("serial %d, want 1; log %s", got, &log)
	}
	writePair(t, certFile, keyFile, 2)
	tl.refresh(first.files)
	if got := handshake(t, tl); got != 2 || !strings.Contains(log.String(), "certificate replaced") {
		t.Errorf("serial %d, want 2; log %s", got, &log)
	}
}

func TestFailedReloadChangesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"certificate": {"--tls-cert=" + dir + "/none", "--tls-key=" + dir + "/none"},
		"access log":  {"--access-log=" + dir + "/none/a.log"},
	} {
		before := parseConfig(t)
		p := &Process{initial: before, applied: before} // a reload that changes anything would dereference nil
		if err := p.Reload(parseConfig(t, append(args, "--debug-headers")...)); err == nil || p.applied != before {
			t.Errorf("%s: Reload = %v", name, err)
		}
	}
}

func TestReloadSwitchesTheAccessLogFile(t *testing.T) {
	dir := t.TempDir()
	a := &accessLogs{log: zerolog.Nop()}
	put := func(path, line string) {
		t.Helper()
		f, err := a.prepare(path)
		if err != nil {
			t.Fatal(err)
		}
		if a.replace(path, f); f == nil {
			return
		}
		if _, err := f.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	put(dir+"/a", "1\n") // written before run is called
	var all sync.WaitGroup
	all.Go(func() { a.run(ctx) })
	put(dir+"/a", "2\n")
	put(dir+"/b", "3\n")
	put("off", "")
	cancel()
	all.Wait()
	for name, want := range map[string]string{"a": "1\n2\n", "b": "3\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s = %q, %v, want %q", name, b, err, want)
		}
	}
}
