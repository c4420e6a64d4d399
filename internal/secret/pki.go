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

// PKI contains the file names of the operator's own certificates for the peer port.
type PKI struct {
	// CA contains one or more certificate authorities in PEM format. All are accepted.
	CA string
	// Cert contains the certificate of the node and the intermediate certificates up to a
	// CA, in PEM format. The certificate must contain the node id as a DNS name or as
	// shardway://node/ID.
	Cert string
	// Key contains the private key in PEM format. Only the owner may read the file.
	Key string
}

// Load reads the files and verifies that other nodes will accept the certificate. It uses
// the system clock, because these certificates have a limited lifetime.
func (p PKI) Load(node string) (*Trust, error) {
	trust := newTrust(time.Now)
	authorities, err := ReadAuthorities(p.CA)
	if err != nil {
		return nil, err
	}
	for _, cert := range authorities {
		trust.accept(cert)
	}
	if trust.cert, err = KeyPair(p.Cert, p.Key); err != nil {
		return nil, err
	}
	if err := verifyNodeID(trust.cert.Leaf, node); err != nil {
		return nil, fmt.Errorf("%s: %w: add the id to its subject alternative names, as a DNS name or as the URI %s://%s/%s", p.Cert, err, nodeScheme, nodeHost, node)
	}
	// Other nodes have the same authorities and must accept this certificate for both
	// roles: a node is a client and a server.
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		state := tls.ConnectionState{NegotiatedProtocol: ALPN}
		for _, der := range trust.cert.Certificate {
			cert, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, fmt.Errorf("secret: %s: %w", p.Cert, err)
			}
			state.PeerCertificates = append(state.PeerCertificates, cert)
		}
		if _, _, err := trust.verify(state, usage); err != nil {
			return nil, fmt.Errorf("%s: other nodes would not accept it: %w", p.Cert, err)
		}
	}
	return trust, nil
}

// KeyPair reads a certificate and its private key. Only the owner may read the key file.
func KeyPair(certFile, keyFile string) (tls.Certificate, error) {
	certPEM, err := os.ReadFile(certFile) //nolint:gosec // the operator names the file
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: %w", err)
	}
	keyPEM, err := ReadPrivate(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: %s with %s: %w", certFile, keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return tls.Certificate{}, fmt.Errorf("secret: %s: %w", certFile, err)
		}
	}
	return pair, nil
}

// ReadAuthorities reads the CA certificates of a PEM file. The file must contain at least
// one.
func ReadAuthorities(path string) ([]*x509.Certificate, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	authorities, err := parseAuthorities(b)
	if err != nil {
		return nil, fmt.Errorf("secret: %s: %w", path, err)
	}
	return authorities, nil
}

// parseAuthorities parses a PEM file that contains only CA certificates, at least one.
func parseAuthorities(content []byte) ([]*x509.Certificate, error) {
	var authorities []*x509.Certificate
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a %s is not allowed in a CA file: only certificates are", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !cert.IsCA {
			return nil, fmt.Errorf("the certificate of %q is not a CA certificate (CA:TRUE is missing)", cert.Subject.CommonName)
		}
		authorities = append(authorities, cert)
	}
	if len(bytes.TrimSpace(content)) > 0 && len(authorities) == 0 {
		return nil, errors.New("not PEM: the file must begin with -----BEGIN CERTIFICATE-----")
	}
	if len(authorities) == 0 {
		return nil, errors.New("the file contains no certificate")
	}
	return authorities, nil
}
