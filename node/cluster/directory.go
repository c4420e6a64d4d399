package cluster

import (
	"maps"
	"net/netip"
	"slices"

	"shardway/endpoints"
	"shardway/node/consensus"
	"shardway/node/gossip"
)

// Update rebuilds the directory from the current members of gossip.
func (v *View) Update() {
	v.RecordServers()
	members := v.Gossip.Members()
	v.members.Store(&members)
	directory := buildDirectory(v.directory.Load(), members, v.IsServer)
	v.directory.Store(directory)
	addrs := addresses(directory, members)
	v.nodeAddrs.Store(&addrs)
}

// addresses returns the gossip address and the peer address of each node.
func addresses(directory *endpoints.Directory, members []gossip.Member) map[netip.Addr]bool {
	addrs := map[netip.Addr]bool{}
	for _, member := range members {
		if member.Node {
			addrs[member.Addr.Addr().Unmap()] = true
		}
	}
	for _, entry := range directory.All() {
		if addrPort, err := netip.ParseAddrPort(entry.Addr); err == nil && entry.IsNode && entry.Name == endpoints.Peer {
			addrs[addrPort.Addr().Unmap()] = true
		}
	}
	return addrs
}

// IsNodeAddress reports whether addr is the address of a node.
func (v *View) IsNodeAddress(addr netip.Addr) bool {
	addrs := v.nodeAddrs.Load()
	return addrs != nil && (*addrs)[addr]
}

// buildDirectory returns the directory of the endpoints that the members announce. A node with a server in Raft's
// configuration stays in the directory when gossip forgets it, because Raft must reach a voter however long it has
// been absent. isServer reports whether a node has such a server.
func buildDirectory(previous *endpoints.Directory, members []gossip.Member, isServer func(node string) bool) *endpoints.Directory {
	var entries []endpoints.Entry
	inGossip := map[string]bool{}
	for _, member := range members {
		addrs := member.Tags.Endpoints
		if !member.Node && !gossip.HasValidName(member.ID) {
			continue
		}
		if !member.Node {
			addrs = withoutNodeEndpoints(addrs)
		}
		entries = append(entries, endpoints.Entry{ID: member.ID, Node: member.Node, Addrs: addrs})
		inGossip[member.ID] = inGossip[member.ID] || member.Node
	}
	retained := map[string]map[string]string{}
	for _, entry := range previous.All() {
		if !entry.IsNode || inGossip[entry.ID] || !isServer(entry.ID) {
			continue
		}
		if retained[entry.ID] == nil {
			retained[entry.ID] = map[string]string{}
		}
		retained[entry.ID][entry.Name] = entry.Addr
	}
	for id, addrs := range retained {
		entries = append(entries, endpoints.Entry{ID: id, Node: true, Addrs: addrs})
	}
	return endpoints.New(entries)
}

// withoutNodeEndpoints returns the endpoints of a member that is not a node, without the names reserved for a
// node's ports, by which scripts find the nodes.
func withoutNodeEndpoints(addrs map[string]string) map[string]string {
	addrs = maps.Clone(addrs)
	for _, name := range []string{endpoints.HTTP, endpoints.Peer, endpoints.Admin} {
		delete(addrs, name)
	}
	return addrs
}

// Members returns the members of gossip at its last change. It reads a cached list, so it is cheap enough for
// frequent callers.
func (v *View) Members() []gossip.Member {
	if members := v.members.Load(); members != nil {
		return *members
	}
	return nil
}

// RecordServers records which nodes have a server in Raft's configuration.
func (v *View) RecordServers() {
	voters, nonvoters := v.Servers()
	nodes := map[string]bool{}
	for _, server := range slices.Concat(voters, nonvoters) {
		nodes[consensus.NodeOf(server)] = true
	}
	v.raftNodes.Store(&nodes)
}

// IsServer reports whether a node had a server in Raft's configuration at the last RecordServers. It does
// not block, because gossip calls it with its lock held.
func (v *View) IsServer(node string) bool {
	nodes := v.raftNodes.Load()
	return nodes != nil && (*nodes)[node]
}

// Directory returns the announced addresses of all members, as of the last Update.
func (v *View) Directory() *endpoints.Directory { return v.directory.Load() }

// Lookup returns a node's peer address.
func (v *View) Lookup(node string) (string, bool) {
	return v.directory.Load().Addr(node, endpoints.Peer)
}

// IsLeavingOrLeft reports whether the node is leaving or has left, according to gossip.
func (v *View) IsLeavingOrLeft(node string) bool {
	return slices.ContainsFunc(v.Gossip.Members(), func(member gossip.Member) bool {
		return member.ID == node && member.Node && (member.Status == gossip.Leaving || member.Status == gossip.Left)
	})
}
