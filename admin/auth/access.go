package auth

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

// Permission is the access level of a caller. Each value includes the previous ones.
type Permission int

const (
	// None rejects the caller.
	None Permission = iota
	// Read permits GET and HEAD requests, except those below /debug/.
	Read
	// Write permits every request.
	Write
)

// Access defines who may use an admin port. It is immutable. The zero value permits everything to
// every caller.
type Access struct {
	// Read and Write are the tokens for read access and for write access.
	Read, Write Tokens
	// ReadCAs and WriteCAs are the authorities of client certificates for read access and for write
	// access. They have an effect only if the port uses TLS. nil means no authority.
	ReadCAs, WriteCAs *x509.CertPool
	// Hosts are the accepted host names, in addition to localhost and IP addresses. A request with a
	// valid token may use any host name.
	Hosts []string
}

// isOpen reports whether the port accepts requests without credentials.
func (a *Access) isOpen() bool {
	return len(a.Read) == 0 && len(a.Write) == 0 && a.ReadCAs == nil && a.WriteCAs == nil
}

// Caller is the authenticated sender of a request.
type Caller struct {
	Name       string // "token alice", "certificate CN=bob", "anybody"
	Addr       string // remote address
	Permission Permission
	ByToken    bool // authenticated by a token, which a cross-origin page cannot send
}

// Unknown returns the Caller of a request without authentication.
func Unknown(r *http.Request) Caller { return Caller{Name: "unknown", Addr: r.RemoteAddr} }

// String returns the name and the address for actions and logs.
func (c Caller) String() string { return c.Name + " from " + c.Addr }

// Required returns the Permission that r needs. Profiles load the process and reveal its
// memory, so they need write access.
func Required(r *http.Request) Permission {
	isReadMethod := r.Method == http.MethodGet || r.Method == http.MethodHead
	isProfile := strings.HasPrefix(r.URL.Path, "/debug/")
	if isReadMethod && !isProfile {
		return Read
	}
	return Write
}

// Authenticate identifies the sender of r. The error describes the problem with the credentials,
// but does not contain them.
func (a *Access) Authenticate(r *http.Request) (Caller, error) {
	caller := Unknown(r)
	if a.isOpen() {
		caller.Name, caller.Permission = "anybody", Write
		return caller, nil
	}
	token, hasToken, err := bearerToken(r)
	if err != nil {
		return caller, err
	}
	if hasToken {
		name, permission := a.tokenPermission(token)
		if permission == None {
			return caller, errors.New("unknown token")
		}
		caller.Name, caller.Permission, caller.ByToken = "token "+name, permission, true
		return caller, nil
	}
	if leaf, permission := a.certificatePermission(r); permission != None {
		caller.Name, caller.Permission = "certificate "+leaf.Subject.String(), permission
		return caller, nil
	}
	return caller, fmt.Errorf("show a token (Authorization: Bearer TOKEN; commands take --token-file FILE)%s", a.certificateHint(r))
}

// certificateHint completes the error for a request without valid credentials.
func (a *Access) certificateHint(r *http.Request) string {
	switch {
	case a.ReadCAs == nil && a.WriteCAs == nil:
		return ""
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		return "; the certificate is not accepted here"
	}
	return ", or a client certificate"
}

// tokenPermission returns the name and the permission of a token. It always compares all tokens,
// so that its duration reveals nothing.
func (a *Access) tokenPermission(token string) (string, Permission) {
	reader, mayRead := a.Read.lookup(token)
	writer, mayWrite := a.Write.lookup(token)
	switch {
	case mayWrite:
		return writer, Write
	case mayRead:
		return reader, Read
	}
	return "", None
}

// certificatePermission verifies the client certificate of the connection. It does so for every
// request, because the authorities may change during a connection.
func (a *Access) certificatePermission(r *http.Request) (*x509.Certificate, Permission) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, None
	}
	leaf := r.TLS.PeerCertificates[0]
	isValid := func(roots *x509.CertPool) bool {
		if roots == nil {
			return false
		}
		_, err := certverify.Verify(r.TLS.PeerCertificates, x509.VerifyOptions{
			Roots: roots, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		return err == nil
	}
	switch {
	case isValid(a.WriteCAs):
		return leaf, Write
	case isValid(a.ReadCAs):
		return leaf, Read
	}
	return nil, None
}

// ValidHost reports whether the Host header is an IP address, localhost or a configured name.
// This prevents DNS rebinding: a web page whose host name resolves to this port cannot send such a
// Host header.
func (a *Access) ValidHost(host string) bool {
	if host == "" {
		return true // HTTP/1.0, so the client is not a browser
	}
	name := host
	colon := strings.LastIndexByte(host, ':')
	hasPort := colon >= 0 && !strings.HasSuffix(host, "]")
	if hasPort {
		name = host[:colon]
	}
	withoutBrackets := strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip, err := netip.ParseAddr(withoutBrackets); err == nil {
		// A zone may be any text, and browsers do not send one. 0.0.0.0 and :: reach this machine but
		// bypass the protection that browsers give to local addresses. IPv4-mapped IPv6 addresses are
		// not in ordinary use.
		return ip.Zone() == "" && !ip.IsUnspecified() && !ip.Is4In6()
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || slices.ContainsFunc(a.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}
