package gossip_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"shardway/internal/clock"
	"shardway/internal/raceflag"
	"shardway/internal/simnet"
	"shardway/node/gossip"
)

const port = 7946

// swarm is a number of members on a simulated network.
type swarm struct {
	t     *testing.T
	net   *simnet.Net
	all   []*member
	dns   *names
	made  map[string]*simnet.Host
	keys  map[string][][]byte // of each member; a missing entry means plain text
	keep  func(id string) bool
	file  func(name string) string                                          // the snapshot file of each member; nil means none
	want  int                                                               // the number of nodes that each member expects
	pulse *clock.Scheduler                                                  // the scheduler of all members; nil means that each has its own
	tap   func(memberlist.NodeAwareTransport) memberlist.NodeAwareTransport // nil means none
	// multicast answers the multicast DNS queries of all members; nil means that they are sent to the network
	multicast func(ctx context.Context, self netip.Addr, keys [][]byte) ([]netip.AddrPort, error)
	mu        sync.Mutex
	logs      []string
}

// member is a member of a swarm.
type member struct {
	*gossip.Gossip
	sw   *swarm
	host *simnet.Host
	stop func()
}

// names is a resolver with its own records.
type names struct {
	mu   sync.Mutex
	ips  map[string][]netip.Addr
	srv  map[string][]*net.SRV
	mute string // the name that never gets a response
}

func (n *names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if host == n.mute {
		n.mu.Unlock()
		<-ctx.Done()
		n.mu.Lock()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	if ips, ok := n.ips[host]; ok {
		return ips, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (n *names) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if srv, ok := n.srv[name]; ok {
		usable := slices.DeleteFunc(slices.Clone(srv), func(s *net.SRV) bool { return s.Target == "" })
		if len(usable) < len(srv) { // as Go's own resolver does
			return name, usable, &net.DNSError{Err: "DNS response contained records which contain invalid names", Name: name}
		}
		return name, srv, nil
	}
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (n *names) set(host string, ips ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ips[host] = slices.Clone(ips) // the test changes them later
}

func bubble(t *testing.T, f func(s *swarm)) {
	t.Helper()
	defer raceflag.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		s := &swarm{t: t, made: map[string]*simnet.Host{}, net: simnet.New(simnet.Config{}), dns: &names{ips: map[string][]netip.Addr{}, srv: map[string][]*net.SRV{}}}
		defer func() {
			s.net.Close()
			for _, m := range s.all {
				m.stop()
			}
			time.Sleep(10 * time.Minute) // The libraries' goroutines end with their next tick.
		}()
		f(s)
	})
}

// host returns the host of the given name.
func (s *swarm) host(name string) *simnet.Host {
	if s.made[name] == nil {
		s.made[name] = s.net.Host(name)
	}
	return s.made[name]
}

// add starts a member on its host. join contains addresses or names.
func (s *swarm) add(name string, tags gossip.Tags, join ...string) *member {
	s.t.Helper()
	m := &member{sw: s, host: s.host(name)}
	s.all = append(s.all, m)
	m.start(name, tags, join...)
	return m
}

func (m *member) start(name string, tags gossip.Tags, join ...string) {
	t := m.sw.t
	t.Helper()
	sim, err := m.host.Transport(port)
	if err != nil {
		t.Fatal(err)
	}
	var tr memberlist.NodeAwareTransport = sim
	if m.sw.tap != nil {
		tr = m.sw.tap(tr)
	}
	var file string
	if m.sw.file != nil {
		file = m.sw.file(name)
	}
	g, err := gossip.New(gossip.Options{
		Name: name, Tags: tags, JoinAddrs: join, Keys: m.sw.keys[name], Transport: tr, AdvertiseAddr: m.host.Addr(port), RetainForever: m.sw.keep, BootstrapExpect: m.sw.want, Scheduler: m.sw.pulse, SnapshotPath: file,
		Resolver: m.sw.dns, LookupMulticast: m.sw.multicast, Log: zerolog.New(m.sw),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	m.Gossip = g
	m.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		m.stop = func() {}
	}
}

func (s *swarm) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = append(s.logs, string(b))
	return len(b), nil
}

func (s *swarm) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.logs
	s.logs = nil
	return out
}

func node(name string) gossip.Tags {
	return gossip.Tags{Node: name, Disk: "d" + name, Shards: 1024, Role: "node", Weight: 1}
}

func inCluster(name, cluster string) gossip.Tags {
	t := node(name)
	t.Cluster = cluster
	return t
}

// sees returns the status of name at m, or 0 if m does not know it.
func (m *member) sees(name string) gossip.Status {
	for _, o := range m.Members() {
		if o.ID == name {
			return o.Status
		}
	}
	return 0
}

func (s *swarm) until(what string, f func() bool) time.Duration {
	s.t.Helper()
	start := time.Now()
	for !f() {
		if time.Since(start) > 3*time.Minute {
			for _, m := range s.all {
				s.t.Logf("%s: %v", m.host.Name(), m.Members())
			}
			s.t.Fatalf("not after three minutes: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait() // the sender has notified all members, for example of a join
	return time.Since(start)
}

func (s *swarm) whole(among ...*member) time.Duration {
	s.t.Helper()
	return s.until("all see all", func() bool {
		for _, m := range among {
			for _, o := range among {
				if m.sees(o.host.Name()) != gossip.Alive {
					return false
				}
			}
		}
		return true
	})
}
