package endpoints

import (
	"cmp"
	"maps"
	"slices"
)

// Entry is the announcement of one member.
type Entry struct {
	ID    string            // node id, or the Serf name of a member that is not a node
	Node  bool              // whether the member is a Shardway node
	Addrs map[string]string // endpoint name (without "ep.") → address; New copies the map
}

// Directory contains the endpoints of all members. It is immutable. A nil Directory is empty.
type Directory struct {
	nodes     map[string]map[string]string // node id → endpoint name → address
	endpoints []Endpoint                   // sorted as All returns it
}

// New returns a directory of entries. Node ids and the names of other members are separate
// namespaces, so a member cannot impersonate a node by taking its name. If several entries have the
// same id, the last one wins.
func New(entries []Entry) *Directory {
	directory := &Directory{nodes: make(map[string]map[string]string)}
	others := make(map[string]map[string]string)
	for _, entry := range entries {
		if entry.Node {
			directory.nodes[entry.ID] = maps.Clone(entry.Addrs)
		} else {
			others[entry.ID] = maps.Clone(entry.Addrs)
		}
	}
	directory.appendAll(directory.nodes, true)
	directory.appendAll(others, false)
	slices.SortFunc(directory.endpoints, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), compareNodeFirst(a, b), cmp.Compare(a.Name, b.Name))
	})
	return directory
}

// compareNodeFirst sorts the endpoints of nodes before those of other members.
func compareNodeFirst(a, b Endpoint) int {
	switch {
	case a.IsNode == b.IsNode:
		return 0
	case a.IsNode:
		return -1
	}
	return 1
}

// appendAll appends the endpoints of members to d.endpoints. isNode applies to all of them.
func (d *Directory) appendAll(members map[string]map[string]string, isNode bool) {
	for id, addrs := range members {
		for name, addr := range addrs {
			d.endpoints = append(d.endpoints, Endpoint{ID: id, IsNode: isNode, Name: name, Addr: addr})
		}
	}
}

// Addr returns the address that node announces under name. It ignores members that are not nodes.
func (d *Directory) Addr(node, name string) (string, bool) {
	if d == nil {
		return "", false
	}
	addr, ok := d.nodes[node][name]
	return addr, ok
}

// All returns the endpoints of all members, sorted by ID (a node before another member with the same
// ID) and then by Name. The slice is shared: do not modify it.
func (d *Directory) All() []Endpoint {
	if d == nil {
		return nil
	}
	return d.endpoints
}
