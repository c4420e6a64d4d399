package admin

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shardway/internal/certverify"
)

// right is what a caller may do. Each includes those before it.
type right int

const (
	// none is for who is not let in at all.
	none right = iota
	// reading is looking: GET and HEAD, but not what stops or searches the process.
	reading
	// writing is everything.
	writing
)

// Access says who may do what at an admin port. It does not change. The zero value
// lets everybody who reaches the port do everything.
type Access struct {
	// Read and Write are the tokens for looking and for changing.
	Read, Write Tokens
	// ReadCAs and WriteCAs issue the client certificates for the same; they count
	// only where the port speaks TLS. Nil: there are none.
	ReadCAs, WriteCAs *x509.CertPool
	// Hosts are the names by which the port may be called, besides localhost and
	// addresses. Whoever shows a token may call it by any.
	Hosts []string
}

// open reports whether nothing has to be shown.
func (a *Access) open() bool {
	return len(a.Read) == 0 && len(a.Write) == 0 && a.ReadCAs == nil && a.WriteCAs == nil
}

// caller is who sent a request.
type caller struct {
	who   string // "token alice", "certificate CN=bob", "anybody"
	from  string // the address
	may   right
	token bool // shown, so no browser was tricked into sending this
}

// String is what actions and logs say.
func (c caller) String() string { return c.who + " from " + c.from }

// needs returns what a request takes. Profiles load the process and show what it
// works on, so looking at them is not enough.
func needs(r *http.Request) right {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(r.URL.Path, "/debug/") {
		return writing
	}
	return reading
}

// judge finds out who sent a request. What is wrong with what he showed is in
// the error; it repeats nothing of it.
func (a *Access) judge(r *http.Request) (caller, error) {
	c := caller{who: "nobody known", from: r.RemoteAddr}
	if a.open() {
		c.who, c.may = "anybody", writing
		return c, nil
	}
	token, shown, err := bearer(r)
	if err != nil {
		return c, err
	}
	if shown {
		name, may := a.tokenRight(token)
		if may == none {
			return c, errors.New("unknown token")
		}
		c.who, c.may, c.token = "token "+name, may, true
		return c, nil
	}
	if leaf, may := a.certificateRight(r); may != none {
		c.who, c.may = "certificate "+leaf.Subject.String(), may
		return c, nil
	}
	return c, fmt.Errorf("show a token (Authorization: Bearer TOKEN; commands take --token-file FILE)%s", a.orCertificate(r))
}

func (a *Access) orCertificate(r *http.Request) string {
	switch {
	case a.ReadCAs == nil && a.WriteCAs == nil:
		return ""
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		return "; the certificate is not accepted here"
	}
	return ", or a client certificate"
}

// tokenRight looks through all tokens whatever it finds, so that its time tells
// nothing.
func (a *Access) tokenRight(token string) (string, right) {
	reader, mayRead := a.Read.find(token)
	writer, mayWrite := a.Write.find(token)
	switch {
	case mayWrite:
		return writer, writing
	case mayRead:
		return reader, reading
	}
	return "", none
}

// certificateRight judges the certificate that came with the connection. It is
// judged with each request: whom the port believes may change meanwhile.
func (a *Access) certificateRight(r *http.Request) (*x509.Certificate, right) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, none
	}
	leaf := r.TLS.PeerCertificates[0]
	good := func(roots *x509.CertPool) bool {
		if roots == nil {
			return false
		}
		_, err := certverify.Verify(r.TLS.PeerCertificates, x509.VerifyOptions{
			Roots: roots, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		return err == nil
	}
	switch {
	case good(a.WriteCAs):
		return leaf, writing
	case good(a.ReadCAs):
		return leaf, reading
	}
	return nil, none
}

// calledRight reports whether a request names this port by an address, localhost
// or a name that it has. A page whose own name was made to lead here (DNS
// rebinding) cannot do so.
func (a *Access) calledRight(host string) bool {
	if host == "" {
		return true // HTTP/1.0: no browser
	}
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name = host[:i]
	}
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")); err == nil {
		// No browser sends a zone, and it may be any text. 0.0.0.0 and :: lead to
		// this machine without being an address of it, past what browsers do to keep
		// pages from it; IPv4 in IPv6 is nobody's way to write an address.
		return ip.Zone() == "" && !ip.IsUnspecified() && !ip.Is4In6()
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || slices.ContainsFunc(a.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}
