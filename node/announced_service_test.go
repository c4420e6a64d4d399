package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/endpoints"
	"shardway/node/gossip"
)

// announce runs a member of the gossip that is not a node, until the test ends or stop is called.
func (w *world) announce(host, name string, tags gossip.Tags) (stop func()) {
	w.t.Helper()
	at := w.net.Host(host)
	transport, err := at.Transport(7946)
	if err != nil {
		w.t.Fatal(err)
	}
	member, err := gossip.New(gossip.Options{
		Name: name, Tags: tags, JoinAddrs: []string{w.all["a"].host.Addr(7946), w.all["b"].host.Addr(7946)}, AdvertiseAddr: at.Addr(7946), Transport: transport, Log: w.log(host),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := member.Listen(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- member.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		if err := member.Leave(w.t.Context()); err != nil {
			w.t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
	return stop
}

// Members of the gossip that are not nodes never become voters, members of the map or nodes, and change no address of a
// node, even if they announce a role or a peer port. Their endpoints are listed while they run.
func TestAnnouncedServiceNeverBecomesANode(t *testing.T) {
	three(t, func(w *world) {
		t := w.t
		before := w.committed()
		claims := gossip.Tags{
			Node: gossip.ServiceName("liar"), Disk: "d1", Cluster: w.leader().node.State().ClusterID(), Shards: shards, Weight: 100,
			Endpoints: map[string]string{endpoints.Peer: w.all["b"].host.Addr(7947), endpoints.HTTP: "10.6.6.6:80", "redis": "10.0.0.7:6379"},
		}
		stops := []func(){
			w.announce("honest", gossip.ServiceName("c"), gossip.Tags{Endpoints: map[string]string{"redis": "10.0.0.9:6379"}}),
			w.announce("liar", gossip.ServiceName("liar"), claims),
			// Other names need the gossip key and another program. The ID of a node is refused.
			w.announce("thief", "b", gossip.Tags{Endpoints: map[string]string{endpoints.Peer: "10.6.6.6:7947", "redis": "10.6.6.6:6379"}}),
		}
		defer func() {
			for _, stop := range stops {
				stop()
			}
		}()
		members := func(p *process) (found []api.Endpoint) {
			for _, endpoint := range p.node.API().Endpoints() {
				if endpoint.Kind == api.KindMember {
					found = append(found, endpoint)
				}
			}
			return found
		}
		want := []api.Endpoint{
			{Node: "c", Kind: api.KindMember, Name: "redis", Addr: "10.0.0.9:6379"},
			{Node: "liar", Kind: api.KindMember, Name: "redis", Addr: "10.0.0.7:6379"},
		}
		for _, name := range []string{"a", "b", "c"} {
			w.until("they are listed at "+name, func() bool { return slices.Equal(members(w.all[name]), want) })
		}
		time.Sleep(time.Minute)
		b := w.all["b"]
		b.kill() // the thief waits for this
		time.Sleep(30 * time.Second)
		b.restart()
		w.untilSettled("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			p := w.all[name]
			if voters := p.node.Voters(); len(voters) > 3 {
				t.Errorf("voters at %s: %v", name, voters)
			}
			var nodes []string
			for _, node := range p.node.API().Status().Nodes {
				nodes = append(nodes, node.ID)
			}
			if !slices.Equal(nodes, []string{"a", "b", "c"}) {
				t.Errorf("nodes at %s: %v", name, nodes)
			}
			w.until("the addresses at "+name, func() bool {
				all := p.node.API().Endpoints()
				has := func(node, addr string) bool {
					return slices.Contains(all, api.Endpoint{Node: node, Kind: api.KindNode, Name: endpoints.Peer, Addr: addr})
				}
				return has("a", w.all["a"].host.Addr(7947)) && has("b", b.host.Addr(7947)) && has("c", w.all["c"].host.Addr(7947)) && slices.Equal(members(p), want)
			})
		}
		for _, member := range w.committed().Members() {
			if !before.IsMember(member.ID) {
				t.Errorf("%s is in the map", member.ID)
			}
		}
		for _, stop := range stops {
			stop()
		}
		w.until("they are not listed any more", func() bool { return len(members(w.all["a"])) == 0 })
	})
}
