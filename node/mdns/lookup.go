package mdns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/mdns"
)

const (
	service = "_shardway._tcp"
	domain  = "local."
	// lookupTimeout is the duration of a lookup. Hosts of a local network respond within milliseconds.
	lookupTimeout = 500 * time.Millisecond
	// maxAddrs limits the number of addresses that one lookup returns.
	maxAddrs = 256
	// maxResponses limits the number of responses that one lookup stores.
	maxResponses = 4096
)

// silent is the logger of the library, which logs each invalid packet of any host.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// Lookup returns the gossip addresses of the nodes on the network that have one of the gossip keys. self is the address
// of this member; the query is sent on its network interface. Lookup takes lookupTimeout.
//
// The library gives up a query if the first of its two sockets cannot send, so Lookup sends one query for each version
// of IP.
func Lookup(ctx context.Context, self netip.Addr, gossipKeys [][]byte) ([]netip.AddrPort, error) {
	iface := interfaceOf(self)
	responses, errs := queryBoth(func(isIPv4 bool, responses chan<- *mdns.ServiceEntry) error {
		return mdns.QueryContext(ctx, &mdns.QueryParam{
			Service: service, Domain: domain, Timeout: lookupTimeout, Interface: iface, Entries: responses,
			WantUnicastResponse: true, DisableIPv4: !isIPv4, DisableIPv6: isIPv4, Logger: silent(),
		})
	})
	if len(errs) == 2 {
		return nil, fmt.Errorf("mdns: query: %w", errors.Join(errs...))
	}
	var addrs []netip.AddrPort
	for _, response := range responses {
		addr, ok := decode(response.InfoFields, gossipKeys)
		if ok && len(addrs) < maxAddrs && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, ctx.Err()
}

// queryBoth calls query for IPv4 and for IPv6 at the same time, and returns up to maxResponses responses and the errors.
//
// The library changes a response that it has sent to the channel when a later packet has the same name, which any host
// can send. The caller must therefore read the responses only after both queries have ended.
func queryBoth(query func(isIPv4 bool, responses chan<- *mdns.ServiceEntry) error) (stored []*mdns.ServiceEntry, errs []error) {
	responses := make(chan *mdns.ServiceEntry, 64) // more responses are lost while it is full, so it is read immediately
	store := func(response *mdns.ServiceEntry) {
		if len(stored) < maxResponses {
			stored = append(stored, response)
		}
	}
	ended := make(chan error, 2)
	for _, isIPv4 := range []bool{true, false} {
		go func() { ended <- query(isIPv4, responses) }()
	}
	for pending := 2; pending > 0; {
		select {
		case response := <-responses:
			store(response)
		case err := <-ended:
			pending--
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	for len(responses) > 0 { // nothing sends any more
		store(<-responses)
	}
	return stored, errs
}

// interfaceOf returns the network interface with an address, or nil if there is none. The system then selects one.
func interfaceOf(ip netip.Addr) *net.Interface {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, candidate := range all {
		addrs, err := candidate.Addrs()
		if err != nil {
			continue
		}
		for _, addr := range addrs {
			if prefix, err := netip.ParsePrefix(addr.String()); err == nil && prefix.Addr().Unmap() == ip {
				return &candidate
			}
		}
	}
	return nil
}
