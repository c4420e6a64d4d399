//go:build linux

package e2e_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// TestNodeWithOnlyItsOwnJoinAddressServes starts `--bootstrap-expect 1 --join <its own
// address>`, as IP address and as localhost. Such a node once never bootstrapped. A
// second node joins it.
func TestNodeWithOnlyItsOwnJoinAddressServes(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Secret: hasSecret(t)})
	a := c.Prepare(t)
	_, port, err := net.SplitHostPort(a.Gossip)
	if err != nil {
		t.Fatal(err)
	}
	a.Start(t, "--bootstrap-expect", "1", "--join", a.Gossip, "--join", "localhost:"+port)
	c.AwaitServing(t)
	before, err := a.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.Kill(t)
	a.Start(t, "--bootstrap-expect", "1", "--join", a.Gossip)
	b := c.Prepare(t)
	b.Start(t, "--bootstrap-expect", "1", "--join", a.Gossip)
	c.AwaitServing(t)
	for _, n := range c.Nodes() {
		if status, err := n.Status(t.Context()); err != nil || status.Cluster != before.Cluster {
			t.Errorf("node %s is in cluster %q (%v), want %q", n.ID, status.Cluster, err, before.Cluster)
		}
	}
}

// TestLoadBalancerAddressIsNotOwnAddress joins through a load balancer that leads to the
// node itself. The next connection may reach another node, so the node must not
// bootstrap, and its finding explains why. The node joins the cluster to which the load
// balancer leads later.
func TestLoadBalancerAddressIsNotOwnAddress(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards})
	a, b := c.Prepare(t), c.Prepare(t)
	leads := &atomic.Pointer[string]{}
	leads.Store(&a.Gossip)
	at := startLoadBalancer(t, leads)
	a.Start(t, "--bootstrap-expect", "1", "--join", at)
	diagnosisTest{t, c}.wantFindingEverywhere(a, diagnosis.NoPeers, at+" (it led to this node itself, and may lead to another node the next time)")
	if status, err := a.Status(t.Context()); err != nil || status.Cluster != "" {
		t.Fatalf("node a founded cluster %q (%v)", status.Cluster, err)
	}
	leads.Store(&b.Gossip)
	b.Start(t)
	c.AwaitServing(t)
}

// startLoadBalancer forwards each TCP connection to the current address in leads, until the test
// ends, and returns its own address.
func startLoadBalancer(t *testing.T, leads *atomic.Pointer[string]) (addr string) {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	forward := func(from net.Conn) {
		defer func() { _ = from.Close() }()
		var d net.Dialer
		to, err := d.DialContext(t.Context(), "tcp", *leads.Load())
		if err != nil {
			return
		}
		defer func() { _ = to.Close() }()
		go func() { _, _ = io.Copy(to, from) }()
		_, _ = io.Copy(from, to)
	}
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			go forward(conn)
		}
	}()
	return ln.Addr().String()
}
