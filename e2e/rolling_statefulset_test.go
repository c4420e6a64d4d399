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
	network, err := netns.New(int(networks.Add(1)), n)
	must(t, err)
	t.Cleanup(func() { must(t, network.Close()) })
	dns, err := dnsserver.New(t.Context(), net.JoinHostPort(network.Gateway, "53"))
	must(t, err)
	t.Cleanup(func() { must(t, dns.Close()) })
	must(t, network.Nameserver(network.Gateway))
	dns.AddService("_gossip._tcp."+nodesName, 7946)
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Net: network, Secret: hasSecret(t)})
	p := &pods{c: c, w: network, dns: dns, at: make(map[string]netip.Addr)}
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
func (p *pods) place(node *cluster.Node) {
	ip := p.w.Host(hostIndex(node)).Data
	node.Gossip, node.Peer = net.JoinHostPort(ip, "7946"), net.JoinHostPort(ip, "7947")
}

// start starts a pod and then adds it to the DNS server.
func (p *pods) start(t *testing.T, node *cluster.Node) {
	t.Helper()
	node.Start(t)
	node.AwaitStatus(t, "runs", func(cluster.Status) bool { return true })
	p.at[node.ID] = netip.MustParseAddr(p.w.Host(hostIndex(node)).Data)
	p.dns.SetAddrs(node.ID+"."+nodesName, p.at[node.ID])
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
func (p *pods) move(t *testing.T, node *cluster.Node) {
	t.Helper()
	must(t, p.w.ChangeAddress(hostIndex(node)))
	p.place(node)
}

// replace replaces one pod as a rolling update does: its node is drained, terminates, and
// starts at another address. With wiped it starts with an empty disk.
func (p *pods) replace(t *testing.T, node *cluster.Node, wiped bool) {
	t.Helper()
	drained := node.RecordDrain()
	if out, code := shardway(t, "drain", "--local", "--wait", "--data", node.DataDir); code != 0 {
		t.Fatalf("drain --local of %s: exit %d, %s", node.ID, code, out)
	}
	node.Stop(t)
	if wiped {
		node.Wipe(t)
	}
	p.move(t, node)
	p.start(t, node)
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
	for _, node := range p.c.Nodes() {
		p.start(t, node)
	}
	p.c.AwaitServing(t)
	traffic := p.c.Load(t, p.c.Running(), cluster.Traffic{Rate: 100})
	for i := range p.c.Nodes() { // from the highest number
		traffic.AwaitStarted(t, 30)
		p.replace(t, p.c.Nodes()[len(p.c.Nodes())-1-i], false)
	}
	traffic.AwaitStarted(t, 30)
	p.replace(t, p.c.Nodes()[1], true)
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)

	cluster.KillAll(t, p.c.Nodes()...)
	for _, node := range p.c.Nodes() {
		p.move(t, node)
		node.Start(t)
	}
	for _, node := range p.c.Nodes() {
		node.AwaitStatus(t, "runs", func(cluster.Status) bool { return true })
	}
	for _, node := range p.c.Nodes() {
		p.at[node.ID] = netip.MustParseAddr(p.w.Host(hostIndex(node)).Data)
		p.dns.SetAddrs(node.ID+"."+nodesName, p.at[node.ID])
	}
	p.publish()
	p.c.AwaitServing(t)
	traffic = p.c.Load(t, p.c.Running(), cluster.Traffic{Rate: 100})
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
}
