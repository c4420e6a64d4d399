package node

import (
	"net"
	"net/netip"
	"slices"

	"shardway/endpoints"
	"shardway/node/gossip"
	"shardway/peer"
)

// updateDirectory rebuilds the directory from the current members of gossip.
func (n *Node) updateDirectory() {
	n.noteServers()
	members := n.gossip.Members()
	n.shown.Store(&members)
	d := directory(n.directory.Load(), members, n.isServer)
	n.directory.Store(d)
	addrs := addresses(d, members)
	n.addrs.Store(&addrs)
}

// addresses returns the addresses of all nodes: those of gossip and those of the peer ports.
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

// isNodeAddress reports whether addr is the address of a node.
func (n *Node) isNodeAddress(addr netip.Addr) bool {
	all := n.addrs.Load()
	return all != nil && (*all)[addr]
}

// directory returns the endpoints that the members announce. A node with a server in Raft's
// configuration stays in the directory when gossip forgets it: Raft must reach a voter, however long
// it was absent. server reports whether a node has such a server.
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

// members returns the members of gossip at its last change. It is cheap, for frequent callers.
func (n *Node) members() []gossip.Member {
	if all := n.shown.Load(); all != nil {
		return *all
	}
	return nil
}

// noteServers records which nodes have a server in Raft's configuration.
func (n *Node) noteServers() {
	voters, others := n.servers()
	now := map[string]bool{}
	for _, s := range slices.Concat(voters, others) {
		now[nodeOf(s)] = true
	}
	n.inRaft.Store(&now)
}

// isServer reports whether a node had a server in Raft's configuration at the last noteServers. It does
// not block, because gossip calls it with its lock held.
func (n *Node) isServer(node string) bool {
	all := n.inRaft.Load()
	return all != nil && (*all)[node]
}

// lookup returns a node's peer address.
func (n *Node) lookup(node string) (string, bool) {
	return n.directory.Load().Addr(node, endpoints.Peer)
}

// leftByPlan reports whether the node leaves or has left, according to gossip.
func (n *Node) leftByPlan(node string) bool {
	return slices.ContainsFunc(n.gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && (m.Status == gossip.Leaving || m.Status == gossip.Left)
	})
}

// heardRecently reports whether data has just arrived on a mux session with the current process of a
// node. The mux layer sends pings on a session that is silent for longer and has streams.
func (n *Node) heardRecently(node string) bool {
	isCurrent := func(conn net.Conn) bool {
		c, ok := conn.(*peer.Conn)
		return ok && n.diskRecords.isCurrentProcess(c.Peer())
	}
	return n.router.WebSocketStreams.Outgoing.HeardFrom(node, isCurrent) || n.router.RequestStreams.Outgoing.HeardFrom(node, isCurrent)
}
