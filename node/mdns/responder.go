package mdns

import (
	"context"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/mdns"
	"github.com/miekg/dns"
	"github.com/rs/zerolog"
)

const (
	// retryInterval is the pause before the responder tries again to open its sockets.
	retryInterval = 5 * time.Second
	// maxResponsesPerSecond limits the responses, because the sender of a query can be forged.
	maxResponsesPerSecond = 100
)

// Responder responds to multicast DNS queries for the gossip address of a node.
type Responder struct {
	Addr netip.AddrPort
	// Keys returns the current gossip keys. The first one is used.
	Keys func() [][]byte
	Log  zerolog.Logger

	mu struct {
		sync.Mutex
		second    int64 // Unix time
		responses int   // responses in that second
	}
}

// Run responds to queries until ctx ends. If the network does not support multicast yet, it tries again.
func (r *Responder) Run(ctx context.Context) {
	isLogged := false
	for {
		server, err := mdns.NewServer(&mdns.Config{Zone: r, Iface: interfaceOf(r.Addr.Addr()), Logger: silent()})
		if err == nil {
			<-ctx.Done()
			_ = server.Shutdown() // always nil
			return
		}
		if !isLogged {
			r.Log.Warn().Err(err).Msg("no multicast DNS responses, retrying")
			isLogged = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryInterval):
		}
	}
}

var _ mdns.Zone = (*Responder)(nil)

// Records implements mdns.Zone. It returns the response to a query for the service, and nothing otherwise.
func (r *Responder) Records(question dns.Question) []dns.RR {
	isForService := strings.EqualFold(question.Name, service+"."+domain)
	isForPointer := question.Qtype == dns.TypePTR || question.Qtype == dns.TypeANY
	keys := r.Keys()
	if !isForService || !isForPointer || len(keys) == 0 || !r.mayRespond(time.Now()) {
		return nil
	}
	fields := encode(r.Addr, keys[0])
	name := "shardway-" + hex.EncodeToString(codeOf(r.Addr.String(), keys[0])[:8])
	announced, err := mdns.NewMDNSService(name, service, domain, name+"."+domain, int(r.Addr.Port()), []net.IP{r.Addr.Addr().AsSlice()}, fields)
	if err != nil {
		return nil
	}
	question.Name = service + "." + domain // the library compares case-sensitively
	return announced.Records(question)
}

// mayRespond reports whether the limit of responses permits another one, and counts it.
func (r *Responder) mayRespond(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if second := now.Unix(); second != r.mu.second {
		r.mu.second, r.mu.responses = second, 0
	}
	r.mu.responses++
	return r.mu.responses <= maxResponsesPerSecond
}
