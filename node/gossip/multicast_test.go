package gossip_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shardway/node/gossip"
)

// multicast is a network on which members answer multicast DNS queries.
type multicast struct {
	members []*member
	err     error // of each query; nil means none
	queries int
	extra   []netip.AddrPort // addresses in every answer
}

// lookUp implements gossip.Options.LookupMulticast. Each member answers, also the one that sends the query.
func (n *multicast) lookUp(context.Context, netip.Addr, [][]byte) ([]netip.AddrPort, error) {
	n.queries++
	addrs := append([]netip.AddrPort{}, n.extra...)
	for _, m := range n.members {
		addrs = append(addrs, netip.MustParseAddrPort(m.host.Addr(port)))
	}
	return addrs, n.err
}

func TestMembersFindEachOtherByMulticastDNS(t *testing.T) {
	bubble(t, func(s *swarm) {
		network := &multicast{}
		s.multicast = network.lookUp
		s.keys = map[string][][]byte{"a": {key(1)}, "b": {key(1)}, "c": {key(2)}}
		a := s.add("a", node("a"), "mdns")
		network.members = append(network.members, a)
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
		if network.queries > 15 {
			t.Errorf("%d queries in 10 s", network.queries)
		}
		b := s.add("b", node("b"), "mdns")
		network.members = append(network.members, b)
		if took := s.whole(a, b); took > 3*time.Second {
			t.Errorf("found after %v", took)
		}
		// Both return without each other's addresses, after the network was broken.
		network.err = errors.New("no route")
		b.host.Crash()
		b.stop()
		b.host = b.host.Restart()
		b.start("b", node("b"), "mdns")
		time.Sleep(3 * time.Second)
		network.err = nil
		s.whole(a, b)
		// A node with another secret does not join, whatever it finds.
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
