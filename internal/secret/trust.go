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

	"shardway/internal/vouch"
)

// Trust is who this node is and whom it believes. That does not change; what it has found
// out by it is kept, for any number of goroutines.
type Trust struct {
	own   tls.Certificate
	roots *x509.CertPool
	// accepted are the fingerprints of the roots.
	accepted map[root]bool
	// now is when certificates are judged.
	now func() time.Time
	// derived means that all of it was made from secrets.
	derived bool

	sessions sessions
	judged   judged
}

// root is the fingerprint of an authority's certificate.
type root [sha256.Size]byte

func rootOf(c *x509.Certificate) root { return sha256.Sum256(c.Raw) }

func newTrust(now func() time.Time) *Trust {
	return &Trust{roots: x509.NewCertPool(), accepted: make(map[root]bool), now: now}
}

// Leaf returns the certificate that this node shows.
func (t *Trust) Leaf() *x509.Certificate { return t.own.Leaf }

func (t *Trust) accept(c *x509.Certificate) {
	t.roots.AddCert(c)
	t.accepted[rootOf(c)] = true
}

// Derive returns what a list of secrets amounts to for a node: a certificate of
// its own by the first one, and the authorities of all.
func Derive(l List, node string) (*Trust, error) {
	if len(l) == 0 {
		return nil, errors.New("secret: there is none")
	}
	t := newTrust(fixedTime)
	t.derived = true
	for i, s := range l {
		a, err := s.authority()
		if err != nil {
			return nil, err
		}
		t.accept(a.cert)
		if i > 0 {
			continue
		}
		if t.own, err = a.leaf(node); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// verify judges the certificate at the other end and returns it with the
// authority that vouches for it. It is asked before the first byte of ours is
// sent or read.
func (t *Trust) verify(cs tls.ConnectionState, usage x509.ExtKeyUsage) (*x509.Certificate, root, error) {
	if cs.NegotiatedProtocol != ALPN {
		return nil, root{}, fmt.Errorf("secret: the other side does not name the protocol %q (it names %q): it is not a node", ALPN, cs.NegotiatedProtocol)
	}
	if len(cs.PeerCertificates) == 0 {
		return nil, root{}, errors.New("secret: the other side shows no certificate: it is not a node")
	}
	leaf, now := cs.PeerCertificates[0], t.now()
	key := judgedKey{sha256.Sum256(leaf.Raw), usage}
	if by, ok := t.judged.recall(key, now); ok {
		return leaf, by, nil
	}
	chains, err := vouch.Verify(cs.PeerCertificates, x509.VerifyOptions{
		Roots: t.roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, root{}, t.foreign(leaf, err)
	}
	return leaf, t.judged.note(key, chains[0]), nil
}

// foreign says what to do about a certificate that is not believed.
func (t *Trust) foreign(leaf *x509.Certificate, err error) error {
	who := fmt.Sprintf("secret: the certificate of %s, issued by %s, is not accepted", quoted(nodes(leaf)), quote(leaf.Issuer.CommonName))
	err = &briefError{err}
	if t.derived {
		return fmt.Errorf("%s: does the other node have the same secret (--secret-file)? %w", who, err)
	}
	return fmt.Errorf("%s by --tls-ca: %w", who, err)
}

// Of what strangers write into certificates, refusals repeat as much as a
// well-meant one needs.
const (
	maxName  = 80
	maxNames = 3
	maxWhy   = 256
)

func quote(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return strconv.Quote(s)
}

func quoted(ids []string) string {
	if len(ids) == 0 {
		return "an unnamed node"
	}
	var out []string
	for _, id := range ids[:min(len(ids), maxNames)] {
		out = append(out, "node "+quote(id))
	}
	if more := len(ids) - maxNames; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// briefError is an error in whose text a certificate's words stand.
type briefError struct{ error }

// Error returns the beginning of the text.
func (e *briefError) Error() string {
	s := e.error.Error()
	if len(s) > maxWhy {
		s = strings.ToValidUTF8(s[:maxWhy], "") + "…"
	}
	return s
}

// Unwrap returns the whole error.
func (e *briefError) Unwrap() error { return e.error }

// speaksFor reports whether a certificate is good for a node.
func speaksFor(leaf *x509.Certificate, node string) error {
	ids := nodes(leaf)
	if slices.Contains(ids, node) {
		return nil
	}
	return fmt.Errorf("secret: the certificate is good for %s and not for node %q", quoted(ids), node)
}
