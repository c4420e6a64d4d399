package secret

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/internal/certverify"
)

// Trust is the certificate of this node and the authorities that it accepts. Both are
// immutable. Trust also caches TLS sessions and verified certificates. It is safe for
// concurrent use.
type Trust struct {
	cert     tls.Certificate          // certificate of this node
	roots    *x509.CertPool           // accepted authorities
	accepted map[rootFingerprint]bool // fingerprints of the roots
	now      func() time.Time         // time at which certificates are verified
	derived  bool                     // all certificates were derived from secrets

	sessions sessionConfigs
	verified verifiedCache
}

// rootFingerprint is the fingerprint of a CA certificate.
type rootFingerprint [sha256.Size]byte

func rootOf(cert *x509.Certificate) rootFingerprint { return sha256.Sum256(cert.Raw) }

func newTrust(now func() time.Time) *Trust {
	return &Trust{roots: x509.NewCertPool(), accepted: make(map[rootFingerprint]bool), now: now}
}

// Leaf returns the certificate that this node presents.
func (t *Trust) Leaf() *x509.Certificate { return t.cert.Leaf }

func (t *Trust) accept(cert *x509.Certificate) {
	t.roots.AddCert(cert)
	t.accepted[rootOf(cert)] = true
}

// Derive returns the Trust of a node for a list of secrets: a new certificate issued by the
// CA of the first secret, and the CAs of all secrets.
func Derive(secrets List, node string) (*Trust, error) {
	if len(secrets) == 0 {
		return nil, errors.New("secret: the list is empty")
	}
	trust := newTrust(verificationTime)
	trust.derived = true
	for i, s := range secrets {
		authority, err := s.authority()
		if err != nil {
			return nil, err
		}
		trust.accept(authority.cert)
		if i > 0 {
			continue
		}
		if trust.cert, err = authority.issueLeaf(node); err != nil {
			return nil, err
		}
	}
	return trust, nil
}

// verify checks the certificate of the peer and returns it with the CA that issued it. TLS
// calls it before application data is sent or received.
func (t *Trust) verify(state tls.ConnectionState, usage x509.ExtKeyUsage) (*x509.Certificate, rootFingerprint, error) {
	if state.NegotiatedProtocol != ALPN {
		return nil, rootFingerprint{}, fmt.Errorf("secret: the peer does not name the protocol %q (it names %q): it is not a node", ALPN, state.NegotiatedProtocol)
	}
	if len(state.PeerCertificates) == 0 {
		return nil, rootFingerprint{}, errors.New("secret: the peer presents no certificate: it is not a node")
	}
	leaf, now := state.PeerCertificates[0], t.now()
	key := verifiedCacheKey{sha256.Sum256(leaf.Raw), usage}
	if issuer, ok := t.verified.get(key, now); ok {
		return leaf, issuer, nil
	}
	chains, err := certverify.Verify(state.PeerCertificates, x509.VerifyOptions{
		Roots: t.roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, rootFingerprint{}, t.rejected(leaf, err)
	}
	return leaf, t.verified.put(key, chains[0]), nil
}

// rejected returns the error for a certificate that is not accepted, with advice for the
// operator.
func (t *Trust) rejected(leaf *x509.Certificate, err error) error {
	subject := fmt.Sprintf("secret: the certificate of %s, issued by %s, is not accepted", describeNodes(nodeIDs(leaf)), quoteShort(leaf.Issuer.CommonName))
	err = &truncatedError{err}
	if t.derived {
		return fmt.Errorf("%s: does the other node have the same secret (--secret-file)? %w", subject, err)
	}
	return fmt.Errorf("%s by --tls-ca: %w", subject, err)
}

// Limits for the text of a rejected certificate that an error message repeats. An untrusted
// peer controls that text.
const (
	maxName   = 80
	maxNames  = 3
	maxReason = 256
)

func quoteShort(text string) string {
	if len(text) > maxName {
		text = strings.ToValidUTF8(text[:maxName], "") + "…"
	}
	return strconv.Quote(text)
}

// describeNodes lists the node IDs of a certificate for an error message, up to maxNames of them.
func describeNodes(ids []string) string {
	if len(ids) == 0 {
		return "an unnamed node"
	}
	var names []string
	for _, id := range ids[:min(len(ids), maxNames)] {
		names = append(names, "node "+quoteShort(id))
	}
	if omitted := len(ids) - maxNames; omitted > 0 {
		names = append(names, fmt.Sprintf("%d more", omitted))
	}
	return strings.Join(names, ", ")
}

// truncatedError limits an error text that contains fields of an untrusted certificate.
type truncatedError struct{ error }

// Error returns the beginning of the text, up to maxReason bytes.
func (e *truncatedError) Error() string {
	text := e.error.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

// Unwrap returns the complete error.
func (e *truncatedError) Unwrap() error { return e.error }

// verifyNodeID returns an error unless the certificate is valid for the node.
func verifyNodeID(leaf *x509.Certificate, node string) error {
	ids := nodeIDs(leaf)
	if slices.Contains(ids, node) {
		return nil
	}
	return fmt.Errorf("secret: the certificate is good for %s and not for node %q", describeNodes(ids), node)
}
