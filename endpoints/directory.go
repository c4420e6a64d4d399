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
	ids   []string                     // of nodes, sorted
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
	d.ids = slices.Sorted(maps.Keys(d.nodes))
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

// Nodes returns the ids of the nodes, sorted, also of those that announce
// nothing. The slice is shared: do not modify it.
func (d *Directory) Nodes() []string {
	if d == nil {
		return nil
	}
	return d.ids
}

// All returns every endpoint, of members that are no nodes too, sorted by ID and
// Name. The slice is shared: do not modify it.
func (d *Directory) All() []Endpoint {
	if d == nil {
		return nil
	}
	return d.all
}

// SameAs reports whether both know the same nodes and endpoints.
func (d *Directory) SameAs(o *Directory) bool {
	return slices.Equal(d.Nodes(), o.Nodes()) && slices.Equal(d.All(), o.All())
}
