package endpoints

import (
	"cmp"
	"maps"
	"slices"
)

// Entry is what one member announces.
type Entry struct {
	ID    string            // node id, or the Serf name of a member that is no node
	Node  bool              // a Shardway node
	Addrs map[string]string // name without "ep." → address; copied by New
}

// Directory says who announces what. It is immutable; a nil one is empty.
type Directory struct {
	nodes map[string]map[string]string // node id → name → address
	all   []Endpoint                   // sorted by ID, nodes first, then Name
}

// New returns the directory of entries. Nodes and other members have name spaces
// of their own, so a member cannot pass for a node by taking its name. Of several
// entries with one id the last counts.
func New(entries []Entry) *Directory {
	d := &Directory{nodes: make(map[string]map[string]string)}
	others := make(map[string]map[string]string)
	for _, e := range entries {
		if e.Node {
			d.nodes[e.ID] = maps.Clone(e.Addrs)
		} else {
			others[e.ID] = maps.Clone(e.Addrs)
		}
	}
	d.list(d.nodes, true)
	d.list(others, false)
	slices.SortFunc(d.all, func(a, b Endpoint) int {
		nodeFirst := 0
		if a.IsNode != b.IsNode {
			nodeFirst = 1
			if a.IsNode {
				nodeFirst = -1
			}
		}
		return cmp.Or(cmp.Compare(a.ID, b.ID), nodeFirst, cmp.Compare(a.Name, b.Name))
	})
	return d
}

func (d *Directory) list(members map[string]map[string]string, nodes bool) {
	for id, addrs := range members {
		for name, addr := range addrs {
			d.all = append(d.all, Endpoint{ID: id, IsNode: nodes, Name: name, Addr: addr})
		}
	}
}

// Addr returns the address that node announces under name. Members that are no
// nodes are not looked at.
func (d *Directory) Addr(node, name string) (string, bool) {
	if d == nil {
		return "", false
	}
	addr, ok := d.nodes[node][name]
	return addr, ok
}

// All returns every endpoint, of members that are no nodes too, sorted by ID and
// Name. The slice is shared: do not modify it.
func (d *Directory) All() []Endpoint {
	if d == nil {
		return nil
	}
	return d.all
}
