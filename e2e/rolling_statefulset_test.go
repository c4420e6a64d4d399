//go:build linux

package e2e_test

import (
	"net"
	"net/netip"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/dnsserver"
	"shardway/e2e/kit/netns"
)

// nodesName is the common name of all pods, as of a headless service.
const nodesName = "nodes.shardway.test"

// pods are nodes like the pods of a StatefulSet: each start has another address, which
// the DNS server contains once the pod runs.
type pods struct {
	c   *cluster.Cluster
	w   *netns.Net
	dns *dnsserver.Server
	at  map[string]netip.Addr // addresses that the DNS server contains
}

// preparePods prepares three pods. Two of them find the others by A records, one by SRV
// records.
func preparePods(t *testing.T) *pods {
	t.Helper()
	if err := netns.Available(); err != nil {
		t.Skipf("pods cannot have addresses of their own here: %v", err)
	}
	const n = 3
	w, err := netns.New(int(networks.Add(1)), n)
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	dns, err := dnsserver.New(t.Context(), net.JoinHostPort(w.Gateway, "53"))
	must(t, err)
	t.Cleanup(func() { must(t, dns.Close()) })
	must(t, w.Nameserver(w.Gateway))
	dns.AddService("_gossip._tcp."+nodesName, 7946)
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Net: w, Secret: hasSecret(t)})
	p := &pods{c: c, w: w, dns: dns, at: make(map[string]netip.Addr)}
	for i := range n {
		join := nodesName
		if i == n-1 {
			join = "_gossip._tcp." + nodesName
		}
		p.place(c.Prepare(t, "--bootstrap-expect", "3", "--join", join))
	}
	return p
}

// place gives a node the common ports of the pods, at the address of its pod.
func (p *pods) place(n *cluster.Node) {
	ip := p.w.Host(index(n)).Data
	n.Gossip, n.Peer = net.JoinHostPort(ip, "7946"), net.JoinHostPort(ip, "7947")
}

// start starts a pod and then adds it to the DNS server.
func (p *pods) start(t *testing.T, n *cluster.Node) {
	t.Helper()
	n.Start(t)
	n.AwaitStatus(t, "runs", func(cluster.Status) bool { return true })
	p.at[n.ID] = netip.MustParseAddr(p.w.Host(index(n)).Data)
	p.dns.SetAddrs(n.ID+"."+nodesName, p.at[n.ID])
	p.publish()
}

func (p *pods) publish() {
	var all []netip.Addr
	for _, ip := range p.at {
		all = append(all, ip)
	}
	p.dns.SetAddrs(nodesName, all...)
}

// move gives a terminated pod another address. The DNS server returns the old address
// until the pod runs.
func (p *pods) move(t *testing.T, n *cluster.Node) {
	t.Helper()
	must(t, p.w.ChangeAddress(index(n)))
	p.place(n)
}

// replace replaces one pod as a rolling update does: its node is drained, terminates, and
// starts at another address. With wiped it starts with an empty disk.
func (p *pods) replace(t *testing.T, n *cluster.Node, wiped bool) {
	t.Helper()
	drained := n.RecordDrain()
	if out, code := shardway(t, "drain", "--local", "--wait", "--data", n.DataDir); code != 0 {
		t.Fatalf("drain --local of %s: exit %d, %s", n.ID, code, out)
	}
	n.Stop(t)
	if wiped {
		n.Wipe(t)
	}
	p.move(t, n)
	p.start(t, n)
	p.c.AwaitServing(t)
	drained()
}

// TestRollout repeats the actions of a StatefulSet. Pods start one by one, and names
// resolve only after that. They are replaced one after the other under load, with their
// disks, and one with an empty disk, each at a new address. Then all terminate at once,
// and start together at other addresses while the DNS server still returns the old ones.
// No request fails.
func TestRollout(t *testing.T) {
	t.Parallel() // it waits for drains and elections most of the time
	p := preparePods(t)
	for _, n := range p.c.Nodes() {
		p.start(t, n)
	}
	p.c.AwaitServing(t)
	l := p.c.Load(t, p.c.Running(), cluster.Traffic{Rate: 100})
	for i := range p.c.Nodes() { // from the highest number
		l.AwaitStarted(t, 30)
		p.replace(t, p.c.Nodes()[len(p.c.Nodes())-1-i], false)
	}
	l.AwaitStarted(t, 30)
	p.replace(t, p.c.Nodes()[1], true)
	l.AwaitStarted(t, 100)
	l.Finish(t)

	cluster.KillAll(t, p.c.Nodes()...)
	for _, n := range p.c.Nodes() {
		p.move(t, n)
		n.Start(t)
	}
	for _, n := range p.c.Nodes() {
		n.AwaitStatus(t, "runs", func(cluster.Status) bool { return true })
	}
	for _, n := range p.c.Nodes() {
		p.at[n.ID] = netip.MustParseAddr(p.w.Host(index(n)).Data)
		p.dns.SetAddrs(n.ID+"."+nodesName, p.at[n.ID])
	}
	p.publish()
	p.c.AwaitServing(t)
	l = p.c.Load(t, p.c.Running(), cluster.Traffic{Rate: 100})
	l.AwaitStarted(t, 100)
	l.Finish(t)
}
