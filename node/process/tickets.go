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

// tickets has the clients of a certificate resume their TLS sessions at any node that has
// the cluster's secret. Only TLS 1.3 goes by it: there each session has keys that no ticket
// tells. A ticket of TLS 1.2 tells them, so whoever learned the secret could read what he
// had recorded; those are good at the node that made them, under random keys of its own.
type tickets struct {
	goodFor [sha256.Size]byte
	conf    *tls.Config
	// set is what conf has keys of; nil: there were none yet.
	set atomic.Pointer[ticketKeys]
	mu  sync.Mutex // held while keys change
}

// ticketKeys is what keys follow from.
type ticketKeys struct {
	list *secret.List
	day  int64
}

// newTickets makes the tickets of what conf does without them.
func newTickets(conf *tls.Config, leaf *x509.Certificate) *tickets {
	k := &tickets{goodFor: goodFor(leaf), conf: conf.Clone()}
	k.conf.MinVersion = tls.VersionTLS13
	return k
}

// goodFor tells certificates for other names apart. That of a renewed one stays.
func goodFor(leaf *x509.Certificate) [sha256.Size]byte {
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

// renew gives the keys of list and day to the sessions that come.
func (k *tickets) renew(list *secret.List, day int64) {
	next := ticketKeys{list, day}
	if now := k.set.Load(); now != nil && *now == next {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conf.SetSessionTicketKeys(list.TicketKeys(day, k.goodFor))
	k.set.Store(&next)
}

// config is tls.Config.GetConfigForClient of the certificate.
func (k *tickets) config(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if k.set.Load() == nil || !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
		return nil, nil //nolint:nilnil // the certificate's own
	}
	return k.conf, nil
}
