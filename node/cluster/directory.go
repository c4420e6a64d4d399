package cluster

import (
	"net/netip"
	"slices"

	"shardway/endpoints"
	"shardway/node/consensus"
	"shardway/node/gossip"
)

// Update rebuilds the directory from the current members of gossip.
func (v *View) Update() {
	v.NoteServers()
	members := v.Gossip.Members()
	v.members.Store(&members)
	d := directoryOf(v.directory.Load(), members, v.IsServer)
	v.directory.Store(d)
	addrs := addresses(d, members)
	v.addrs.Store(&addrs)
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

// IsNodeAddress reports whether addr is the address of a node.
func (v *View) IsNodeAddress(addr netip.Addr) bool {
	all := v.addrs.Load()
	return all != nil && (*all)[addr]
}

// directoryOf returns the endpoints that the members announce. A node with a server in Raft's
// configuration stays in the directory when gossip forgets it: Raft must reach a voter, however long
// it was absent. server reports whether a node has such a server.
func directoryOf(before *endpoints.Directory, members []gossip.Member, server func(node string) bool) *endpoints.Directory {
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

// Members returns the members of gossip at its last change. It is cheap, for frequent callers.
func (v *View) Members() []gossip.Member {
	if all := v.members.Load(); all != nil {
		return *all
	}
	return nil
}

// NoteServers records which nodes have a server in Raft's configuration.
func (v *View) NoteServers() {
	voters, others := v.Servers()
	now := map[string]bool{}
	for _, s := range slices.Concat(voters, others) {
		now[consensus.NodeOf(s)] = true
	}
	v.inRaft.Store(&now)
}

// IsServer reports whether a node had a server in Raft's configuration at the last NoteServers. It does
// not block, because gossip calls it with its lock held.
func (v *View) IsServer(node string) bool {
	all := v.inRaft.Load()
	return all != nil && (*all)[node]
}

// Directory returns the announced addresses of all members, as of the last Update.
func (v *View) Directory() *endpoints.Directory { return v.directory.Load() }

// Lookup returns a node's peer address.
func (v *View) Lookup(node string) (string, bool) {
	return v.directory.Load().Addr(node, endpoints.Peer)
}

// LeavesByPlan reports whether the node leaves or has left, according to gossip.
func (v *View) LeavesByPlan(node string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && (m.Status == gossip.Leaving || m.Status == gossip.Left)
	})
}
