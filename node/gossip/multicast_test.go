package gossip_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/node/gossip"
)

// multicast is a network on which members answer multicast DNS queries.
type multicast struct {
	mu      sync.Mutex
	addrs   []netip.AddrPort // the addresses of all members, in every answer
	err     error            // of each query; nil means none
	queries int
}

// add lets a member answer queries.
func (n *multicast) add(m *member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs = append(n.addrs, netip.MustParseAddrPort(m.host.Addr(port)))
}

// failWith sets the error of each query; nil means none.
func (n *multicast) failWith(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// sent returns the number of queries.
func (n *multicast) sent() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queries
}

// lookUp implements gossip.Options.LookupMulticast. Each member answers, also the one that sends the query.
func (n *multicast) lookUp(context.Context, netip.Addr, [][]byte) ([]netip.AddrPort, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queries++
	return slices.Clone(n.addrs), n.err
}

func TestMembersFindEachOtherByMulticastDNS(t *testing.T) {
	bubble(t, func(s *swarm) {
		network := &multicast{}
		s.multicast = network.lookUp
		s.keys = map[string][][]byte{"a": {key(1)}, "b": {key(1)}, "c": {key(2)}}
		a := s.add("a", node("a"), "mdns")
		network.add(a)
		time.Sleep(10 * time.Second)
		const alone = "join mdns: no other node with this secret responds to multicast DNS"
		if err := a.NoOtherNodeReason(); err == nil || !strings.Contains(err.Error(), alone) {
			t.Errorf("alone because of %v", err)
		}
		if all := a.JoinAttempts(); len(all) != 1 || all[0].Addr != "mdns" || all[0].IsSelf() || all[0].Reason() != "no other node with this secret responds to multicast DNS" {
			t.Errorf("join attempts: %+v", all)
		}
		if err := a.JoinsOnlyItself(s.t.Context()); err == nil {
			t.Error("a node that uses multicast DNS may found a cluster alone")
		}
		if queries := network.sent(); queries > 15 {
			t.Errorf("%d queries in 10 s", queries)
		}
		b := s.add("b", node("b"), "mdns")
		network.add(b)
		if took := s.whole(a, b); took > 3*time.Second {
			t.Errorf("found after %v", took)
		}
		// Both return without each other's addresses, after the network was broken.
		network.failWith(errors.New("no route"))
		b.host.Crash()
		b.stop()
		b.host = b.host.Restart()
		b.start("b", node("b"), "mdns")
		time.Sleep(3 * time.Second)
		network.failWith(nil)
		s.whole(a, b)
		// A node with another secret does not join, although it finds the others.
		c := s.add("c", node("c"), "mdns")
		time.Sleep(time.Minute)
		if c.NoOtherNodeReason() == nil || a.sees("c") != 0 {
			t.Error("a node with another secret has joined")
		}
	})
}

func TestMulticastDNSNeedsASecret(t *testing.T) {
	_, err := gossip.New(gossip.Options{Tags: node("a"), JoinAddrs: []string{"10.0.0.1", "mdns"}})
	if err == nil || !strings.Contains(err.Error(), "--secret-file") {
		t.Errorf("multicast DNS without a secret: %v", err)
	}
}
