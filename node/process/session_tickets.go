package process

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"shardway/internal/secret"
)

// sessionTickets lets the clients of a certificate resume TLS 1.3 sessions at every node with the
// secret of the cluster. TLS 1.2 sessions resume only at the node that created them, with random
// keys of this node: a TLS 1.2 ticket contains the keys of the session, so anyone who learned the
// secret could decrypt recorded traffic. A TLS 1.3 session has keys that its ticket does not
// reveal.
type sessionTickets struct {
	namesHash [sha256.Size]byte // see hashNames
	config    *tls.Config
	// current is the source of the ticket keys in config, or nil if there are no keys yet.
	current atomic.Pointer[ticketKeys]
	mu      sync.Mutex // held while the keys change
}

// ticketKeys is the input from which ticket keys are derived.
type ticketKeys struct {
	list *secret.List
	day  int64
}

// newSessionTickets returns the tickets of a certificate. config is its TLS configuration without
// shared tickets.
func newSessionTickets(conf *tls.Config, leaf *x509.Certificate) *sessionTickets {
	t := &sessionTickets{namesHash: hashNames(leaf), config: conf.Clone()}
	t.config.MinVersion = tls.VersionTLS13
	return t
}

// hashNames returns a hash of the names of a certificate. It remains the same when the certificate
// is renewed, and differs for certificates with other names.
func hashNames(leaf *x509.Certificate) [sha256.Size]byte {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	if len(names) == 0 {
		names = append(names, leaf.Subject.String())
	}
	slices.Sort(names)
	return sha256.Sum256(fmt.Appendf(nil, "%q", slices.Compact(names)))
}

// update sets the ticket keys for the secrets and the day.
func (t *sessionTickets) update(list *secret.List, day int64) {
	next := ticketKeys{list, day}
	if current := t.current.Load(); current != nil && *current == next {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.config.SetSessionTicketKeys(list.TicketKeys(day, t.namesHash))
	t.current.Store(&next)
}

// configForClient is the GetConfigForClient function of the certificate. It returns the
// configuration with shared tickets to TLS 1.3 clients.
func (t *sessionTickets) configForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if t.current.Load() == nil || !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
		return nil, nil //nolint:nilnil // nil selects the default configuration
	}
	return t.config, nil
}
