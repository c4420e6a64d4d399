package gossip

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/hashicorp/serf/serf"
)

// Member is a member of the gossip, possibly this node.
type Member struct {
	// ID is the name of the member, which is the node ID of a node.
	ID string
	// Addr is its gossip address.
	Addr netip.AddrPort
	// Status is its state.
	Status Status
	// Node is false for a member that only announces endpoints.
	Node bool
	// Tags is the data that it announces.
	Tags Tags
	// Err is why its tags could not be decoded. Tags is then empty or incomplete.
	Err error
}

// newMember converts a member of Serf.
func newMember(m serf.Member) Member {
	t, err := decode(m.Tags)
	return decodedTags{tags: t, err: err}.member(m)
}

// decodedTags are the decoded tags of a member.
type decodedTags struct {
	raw  map[string]string
	tags Tags
	err  error
}

// member combines the decoded tags with the other data of m.
func (r decodedTags) member(m serf.Member) Member {
	return Member{
		ID:     m.Name,
		Addr:   addrOf(m),
		Status: statusOf(m.Status),
		Node:   r.tags.Node != "" && r.tags.Node == m.Name,
		Tags:   r.tags,
		Err:    r.err,
	}
}

// addrOf returns the gossip address of a member.
func addrOf(m serf.Member) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(m.Addr)
	return netip.AddrPortFrom(ip.Unmap(), m.Port)
}

// tagCache has the decoded tags of all members by name. Members is called many times per second,
// and tags rarely change.
type tagCache struct {
	mu     sync.Mutex
	byName map[string]decodedTags
}

// members converts members of Serf, sorted by ID. The caller must not modify the endpoints in the
// result.
func (r *tagCache) members(all []serf.Member) []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = make(map[string]decodedTags)
	}
	out := make([]Member, len(all))
	for i, m := range all {
		known, ok := r.byName[m.Name]
		if !ok || !maps.Equal(known.raw, m.Tags) {
			known.raw = m.Tags
			known.tags, known.err = decode(m.Tags)
			r.byName[m.Name] = known
		}
		out[i] = known.member(m)
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	if len(r.byName) > len(all) {
		maps.DeleteFunc(r.byName, func(name string, _ decodedTags) bool {
			_, there := slices.BinarySearchFunc(out, name, func(m Member, name string) int { return cmp.Compare(m.ID, name) })
			return !there
		})
	}
	return out
}
