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
func newMember(serfMember serf.Member) Member {
	tags, err := decodeTags(serfMember.Tags)
	return decodedTags{tags: tags, err: err}.member(serfMember)
}

// decodedTags are the decoded tags of a member.
type decodedTags struct {
	encoded map[string]string
	tags    Tags
	err     error
}

// member combines the decoded tags with the other data of a member of Serf.
func (d decodedTags) member(serfMember serf.Member) Member {
	return Member{
		ID:     serfMember.Name,
		Addr:   addrOf(serfMember),
		Status: convertStatus(serfMember.Status),
		Node:   isNode(serfMember.Name, d.tags.Node),
		Tags:   d.tags,
		Err:    d.err,
	}
}

// addrOf returns the gossip address of a member.
func addrOf(member serf.Member) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(member.Addr)
	return netip.AddrPortFrom(ip.Unmap(), member.Port)
}

// tagCache has the decoded tags of all members by name. Gossip.Members is called many times per second,
// and tags rarely change.
type tagCache struct {
	mu     sync.Mutex
	byName map[string]decodedTags
}

// members converts members of Serf, sorted by ID. The caller must not modify the endpoints in the
// result.
func (c *tagCache) members(serfMembers []serf.Member) []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName = make(map[string]decodedTags)
	}
	members := make([]Member, len(serfMembers))
	for i, serfMember := range serfMembers {
		cached, ok := c.byName[serfMember.Name]
		if !ok || !maps.Equal(cached.encoded, serfMember.Tags) {
			cached.encoded = serfMember.Tags
			cached.tags, cached.err = decodeTags(serfMember.Tags)
			c.byName[serfMember.Name] = cached
		}
		members[i] = cached.member(serfMember)
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	if len(c.byName) > len(serfMembers) {
		maps.DeleteFunc(c.byName, func(name string, _ decodedTags) bool {
			_, present := slices.BinarySearchFunc(members, name, func(serfMember Member, name string) int { return cmp.Compare(serfMember.ID, name) })
			return !present
		})
	}
	return members
}
