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
type permission int

const (
	// none is for who is not let in at all.
	noAccess permission = iota
	// reading is looking: GET and HEAD, but not what stops or searches the process.
	readAccess
	// writing is everything.
	writeAccess
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
func (a *Access) isOpen() bool {
	return len(a.Read) == 0 && len(a.Write) == 0 && a.ReadCAs == nil && a.WriteCAs == nil
}

// caller is who sent a request.
type caller struct {
	name       string // "token alice", "certificate CN=bob", "anybody"
	addr       string // the address
	permission permission
	byToken    bool // shown, so no browser was tricked into sending this
}

// String is what actions and logs say.
func (c caller) String() string { return c.name + " from " + c.addr }

// needs returns what a request takes. Profiles load the process and show what it
// works on, so looking at them is not enough.
func requiredPermission(r *http.Request) permission {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(r.URL.Path, "/debug/") {
		return writeAccess
	}
	return readAccess
}

// judge finds out who sent a request. What is wrong with what he showed is in
// the error; it repeats nothing of it.
func (a *Access) authenticate(r *http.Request) (caller, error) {
	c := caller{name: "nobody known", addr: r.RemoteAddr}
	if a.isOpen() {
		c.name, c.permission = "anybody", writeAccess
		return c, nil
	}
	token, shown, err := bearerToken(r)
	if err != nil {
		return c, err
	}
	if shown {
		name, may := a.tokenPermission(token)
		if may == noAccess {
			return c, errors.New("unknown token")
		}
		c.name, c.permission, c.byToken = "token "+name, may, true
		return c, nil
	}
	if leaf, may := a.certificatePermission(r); may != noAccess {
		c.name, c.permission = "certificate "+leaf.Subject.String(), may
		return c, nil
	}
	return c, fmt.Errorf("show a token (Authorization: Bearer TOKEN; commands take --token-file FILE)%s", a.certificateHint(r))
}

func (a *Access) certificateHint(r *http.Request) string {
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
func (a *Access) tokenPermission(token string) (string, permission) {
	reader, mayRead := a.Read.lookup(token)
	writer, mayWrite := a.Write.lookup(token)
	switch {
	case mayWrite:
		return writer, writeAccess
	case mayRead:
		return reader, readAccess
	}
	return "", noAccess
}

// certificateRight judges the certificate that came with the connection. It is
// judged with each request: whom the port believes may change meanwhile.
func (a *Access) certificatePermission(r *http.Request) (*x509.Certificate, permission) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, noAccess
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
		return leaf, writeAccess
	case good(a.ReadCAs):
		return leaf, readAccess
	}
	return nil, noAccess
}

// calledRight reports whether a request names this port by an address, localhost
// or a name that it has. A page whose own name was made to lead here (DNS
// rebinding) cannot do so.
func (a *Access) isValidHost(host string) bool {
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
