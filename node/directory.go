package node

import (
	"net/netip"
	"slices"

	"shardway/endpoints"
	"shardway/node/gossip"
)

// look rebuilds the directory from what gossip shows now.
func (n *Node) look() {
	n.noteServers()
	members := n.gossip.Members()
	n.shown.Store(&members)
	d := directory(n.directory.Load(), members, n.isServer)
	n.directory.Store(d)
	addrs := addresses(d, members)
	n.addrs.Store(&addrs)
}

// addresses returns where nodes are: where they gossip from, and where they are
// reached.
func addresses(d *endpoints.Directory, members []gossip.Member) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, m := range members {
		if m.Node {
			all[m.Addr.Addr().Unmap()] = true
		}
	}
	for _, e := range d.All() {
		if at, err := netip.ParseAddrPort(e.Addr); err == nil && e.IsNode && e.Name == endpoints.Peer {
			all[at.Addr().Unmap()] = true
		}
	}
	return all
}

// near reports whether a node is at an address.
func (n *Node) near(addr netip.Addr) bool {
	all := n.addrs.Load()
	return all != nil && (*all)[addr]
}

// directory returns who announces what. The nodes of Raft's servers stay in it when
// gossip forgets them: Raft has to reach a voter, however long it was gone.
func directory(before *endpoints.Directory, members []gossip.Member, server func(node string) bool) *endpoints.Directory {
	var all []endpoints.Entry
	shown := map[string]bool{}
	for _, m := range members {
		all = append(all, endpoints.Entry{ID: m.ID, Node: m.Node, Addrs: m.Tags.Endpoints})
		shown[m.ID] = shown[m.ID] || m.Node
	}
	kept := map[string]map[string]string{}
	for _, e := range before.All() {
		if !e.IsNode || shown[e.ID] || !server(e.ID) {
			continue
		}
		if kept[e.ID] == nil {
			kept[e.ID] = map[string]string{}
		}
		kept[e.ID][e.Name] = e.Addr
	}
	for id, addrs := range kept {
		all = append(all, endpoints.Entry{ID: id, Node: true, Addrs: addrs})
	}
	return endpoints.New(all)
}

// members returns what gossip showed when it changed last. It is for who looks often.
func (n *Node) members() []gossip.Member {
	if all := n.shown.Load(); all != nil {
		return *all
	}
	return nil
}

// noteServers notes which nodes have a server in Raft's configuration.
func (n *Node) noteServers() {
	voters, others := n.servers()
	now := map[string]bool{}
	for _, s := range slices.Concat(voters, others) {
		now[nodeOf(s)] = true
	}
	n.inRaft.Store(&now)
}

// isServer reports whether a node has a server in Raft's configuration, as far as
// noteServers knows. It does not block: gossip asks under its lock.
func (n *Node) isServer(node string) bool {
	all := n.inRaft.Load()
	return all != nil && (*all)[node]
}

// lookup returns a node's peer address.
func (n *Node) lookup(node string) (string, bool) {
	return n.directory.Load().Addr(node, endpoints.Peer)
}
