package gossip

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"

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
	t, err := decode(m.Tags)
	return decodedTags{tags: t, err: err}.member(m)
}

// reading is what a member's tags say.
type decodedTags struct {
	raw  map[string]string
	tags Tags
	err  error
}

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

func addrOf(m serf.Member) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(m.Addr)
	return netip.AddrPortFrom(ip.Unmap(), m.Port)
}

// readings are those of all members, by name: they are asked for many times a second, and
// tags change seldom.
type tagCache struct {
	mu     sync.Mutex
	byName map[string]decodedTags
}

// members translates them, sorted by id. Nobody changes the Endpoints of what it returns.
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
