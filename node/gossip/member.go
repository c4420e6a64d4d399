package gossip

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/hashicorp/serf/serf"
)

// Member is what gossip knows about one member, this node included.
type Member struct {
	// ID is the member's name: a node's id.
	ID string
	// Addr is where it gossips.
	Addr netip.AddrPort
	// Status is whether it is there.
	Status Status
	// Node is false for a member that only announces endpoints.
	Node bool
	// Tags is what it says about itself.
	Tags Tags
	// Err says why its tags could not be read; then Tags is empty or partial.
	Err error
}

// newMember translates Serf's member.
func newMember(m serf.Member) Member {
	ip, _ := netip.AddrFromSlice(m.Addr)
	t, err := decode(m.Tags)
	return Member{
		ID:     m.Name,
		Addr:   netip.AddrPortFrom(ip.Unmap(), m.Port),
		Status: statusOf(m.Status),
		Node:   t.Node != "" && t.Node == m.Name,
		Tags:   t,
		Err:    err,
	}
}

// members returns them sorted by id.
func members(all []serf.Member) []Member {
	out := make([]Member, len(all))
	for i, m := range all {
		out[i] = newMember(m)
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
