package secret

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// PKI names the files of the user's own certificates for the peer port.
type PKI struct {
	// CA holds one or several authorities, PEM; all are accepted.
	CA string
	// Cert holds the node's certificate and what leads from it to an authority,
	// PEM. The node's id stands in it as a DNS name or as shardway://node/ID.
	Cert string
	// Key holds its private key, PEM; only the owner may read it.
	Key string
}

// Load returns what the files amount to for a node. They are judged by the
// system's clock, as certificates with a lifetime have to be.
func (p PKI) Load(node string) (*Trust, error) {
	t := newTrust(time.Now)
	cas, err := ReadAuthorities(p.CA)
	if err != nil {
		return nil, err
	}
	for _, c := range cas {
		t.accept(c)
	}
	if t.cert, err = KeyPair(p.Cert, p.Key); err != nil {
		return nil, err
	}
	if err := verifyNodeID(t.cert.Leaf, node); err != nil {
		return nil, fmt.Errorf("%s: %w: it needs the id as a DNS name, or %s://%s/%s as a URI, among its alternative names", p.Cert, err, nodeScheme, nodeHost, node)
	}
	// What this node shows must be what the others accept: they have the same
	// authorities, and a node is a client and a server.
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		cs := tls.ConnectionState{NegotiatedProtocol: ALPN}
		for _, der := range t.cert.Certificate {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, fmt.Errorf("secret: %s: %w", p.Cert, err)
			}
			cs.PeerCertificates = append(cs.PeerCertificates, c)
		}
		if _, _, err := t.verify(cs, usage); err != nil {
			return nil, fmt.Errorf("%s: other nodes would not accept it: %w", p.Cert, err)
		}
	}
	return t, nil
}

// KeyPair reads a certificate and its private key, which only the owner of the
// file may read.
func KeyPair(certFile, keyFile string) (tls.Certificate, error) {
	certPEM, err := os.ReadFile(certFile) //nolint:gosec // the operator names the file
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: %w", err)
	}
	keyPEM, err := ReadPrivate(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	c, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: %s with %s: %w", certFile, keyFile, err)
	}
	if c.Leaf == nil {
		if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return tls.Certificate{}, fmt.Errorf("secret: %s: %w", certFile, err)
		}
	}
	return c, nil
}

// Authorities reads the authorities of a PEM file, at least one.
func ReadAuthorities(path string) ([]*x509.Certificate, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	cas, err := parseAuthorities(b)
	if err != nil {
		return nil, fmt.Errorf("secret: %s: %w", path, err)
	}
	return cas, nil
}

func parseAuthorities(b []byte) ([]*x509.Certificate, error) {
	var cas []*x509.Certificate
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a %s does not belong among authorities: only certificates do", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !c.IsCA {
			return nil, fmt.Errorf("the certificate of %q is not a CA certificate (CA:TRUE is missing)", c.Subject.CommonName)
		}
		cas = append(cas, c)
	}
	if len(bytes.TrimSpace(b)) > 0 && len(cas) == 0 {
		return nil, errors.New("not PEM: it begins with -----BEGIN CERTIFICATE-----")
	}
	if len(cas) == 0 {
		return nil, errors.New("it contains no certificate")
	}
	return cas, nil
}
