//go:build linux && (amd64 || arm64)

package rawio

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"os"
	"testing"
	"time"
)

// crypto/tls continues to read after an expired deadline only if the error is a timeout.
func TestTLSReadContinuesAfterDeadline(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	near, far := pair(t, "127.0.0.1:0")
	server := tls.Server(near, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13})
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	said := make(chan error, 1)
	next := make(chan struct{})
	go func() {
		_, err := io.WriteString(client, "one")
		<-next
		_, again := io.WriteString(client, "two")
		said <- errors.Join(err, again)
	}()
	p := make([]byte, 8)
	if n, err := server.Read(p); string(p[:n]) != "one" || err != nil {
		t.Fatalf("Read = %q, %v", p[:n], err)
	}
	if err := server.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Read = %v, want a timeout", err)
	}
	if err := server.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	close(next)
	if n, err := server.Read(p); string(p[:n]) != "two" || err != nil {
		t.Errorf("Read = %q, %v after the deadline was lifted", p[:n], err)
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
}
